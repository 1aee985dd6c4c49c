/* One opening of each database by libdio, for all connections of the process.
 *
 * When a process closes any descriptor of a file, it loses all POSIX locks that it has on that file
 * (fcntl(2)), and SQLite's locks are of this kind. So a descriptor may be closed only while the
 * process has none, whichever VFS they belong to:
 *
 * 1. While a connection through this VFS uses the file, nothing is closed.
 * 2. Connections through the default VFS have a descriptor of their own. If the process has one that
 *    is neither libdio's nor this VFS's, the file stays open, without users, until a later opening
 *    or closing finds no such descriptor.
 * 3. dio_open() opens descriptors and closes none, unless it fails.
 * 4. A connection that is being opened cannot get a lock in between: the default VFS needs the mutex
 *    SQLITE_MUTEX_STATIC_VFS1 between its open(2) and its first lock, and here it is held meanwhile.
 */
#include "vfs.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/stat.h>

SQLITE_EXTENSION_INIT3

#define DESCRIPTORS_MAX 512

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static SharedFile *files; /* guarded by `mutex` */

static bool is_of(const SharedFile *one, dev_t device, ino_t inode) {
    return one->device == device && one->inode == inode;
}

/* Whether the descriptor is one that libdio has of this inode. */
static bool is_known(int descriptor, dev_t device, ino_t inode) {
    for (const SharedFile *one = files; one; one = one->next) {
        if (!is_of(one, device, inode)) continue;
        int open[DESCRIPTORS_MAX];
        int count = dio_descriptors(one->file, open, DESCRIPTORS_MAX, NULL);
        for (int i = 0; i < count && i < DESCRIPTORS_MAX; i++)
            if (open[i] == descriptor) return true;
    }
    return false;
}

/* Whether anything but libdio has the inode open in this process. Yes, if it cannot be known. */
static bool others_have_open(dev_t device, ino_t inode) {
    DIR *directory = opendir("/proc/self/fd");
    if (!directory) return true;
    bool found = false;
    for (struct dirent *entry; !found && (entry = readdir(directory));) {
        if (!isdigit((unsigned char)entry->d_name[0])) continue;
        int descriptor = atoi(entry->d_name);
        struct stat status;
        if (fstat(descriptor, &status) == 0 && status.st_dev == device && status.st_ino == inode)
            found = !is_known(descriptor, device, inode);
    }
    closedir(directory);
    return found;
}

static bool is_used(dev_t device, ino_t inode) {
    for (const SharedFile *one = files; one; one = one->next)
        if (one->users > 0 && is_of(one, device, inode)) return true;
    return false;
}

static void close_all(dev_t device, ino_t inode) {
    for (SharedFile **link = &files; *link;) {
        SharedFile *one = *link;
        if (!is_of(one, device, inode)) {
            link = &one->next;
            continue;
        }
        *link = one->next;
        /* The writes of its connections have reported their own errors. */
        dio_close(one->file, NULL);
        free(one);
    }
}

/* Closes the files that nobody uses and whose closing costs nobody a lock. */
static void sweep(void) {
    sqlite3_mutex *vfs = sqlite3_mutex_alloc(SQLITE_MUTEX_STATIC_VFS1);
    sqlite3_mutex_enter(vfs);
    for (SharedFile *one = files; one;) {
        dev_t device = one->device;
        ino_t inode = one->inode;
        if (one->users > 0 || is_used(device, inode) || others_have_open(device, inode)) {
            one = one->next;
            continue;
        }
        close_all(device, inode);
        one = files;
    }
    sqlite3_mutex_leave(vfs);
}

int failed(int code, dio_error *error) {
    int number = dio_error_errno(error);
    if (number == ENOSPC || number == EDQUOT) code = SQLITE_FULL;
    sqlite3_log(code, "dio: %s", dio_error_text(error));
    dio_error_free(error);
    return code;
}

/* Opens the file by libdio, and checks that it is the one at the name. */
static int open_new(const char *path, bool writable, const struct stat *expected, SharedFile **out) {
    dio_error *error = NULL;
    /* SQLite's locks order what overlaps, so DIO_CONCURRENT. */
    uint32_t flags = DIO_READ | (writable ? DIO_WRITE : 0);
    dio_file *file = dio_open(path, flags, DIO_CONCURRENT, 0, &error);
    if (!file) {
        int number = dio_error_errno(error);
        failed(SQLITE_CANTOPEN, error);
        return number;
    }
    SharedFile *one = calloc(1, sizeof *one);
    int descriptor = -1;
    struct stat status;
    dio_descriptors(file, &descriptor, 1, NULL);
    if (!one || descriptor < 0 || fstat(descriptor, &status) != 0 ||
        status.st_dev != expected->st_dev || status.st_ino != expected->st_ino) {
        /* It is another file, on which this process has no locks yet. */
        dio_close(file, NULL);
        free(one);
        return one ? EAGAIN : ENOMEM;
    }
    *one = (SharedFile){file, status.st_dev, status.st_ino, writable, false, 0, files};
    files = one;
    *out = one;
    return 0;
}

int shared_open(const char *path, bool writable, SharedFile **out) {
    struct stat status;
    if (stat(path, &status) != 0) return errno;
    pthread_mutex_lock(&mutex);
    int result = 0;
    SharedFile *one = files;
    /* One that may be written to serves readers, too. */
    while (one && !(is_of(one, status.st_dev, status.st_ino) && (one->writable || !writable) &&
                    !one->broken))
        one = one->next;
    if (!one) result = open_new(path, writable, &status, &one);
    if (one) {
        one->users++;
        *out = one;
    }
    if (files && (files->next || files->users == 0)) sweep();
    pthread_mutex_unlock(&mutex);
    return result;
}

void shared_close(SharedFile *shared) {
    pthread_mutex_lock(&mutex);
    shared->users--;
    sweep();
    pthread_mutex_unlock(&mutex);
}

void shared_broke(SharedFile *shared) {
    pthread_mutex_lock(&mutex);
    shared->broken = true;
    pthread_mutex_unlock(&mutex);
}
