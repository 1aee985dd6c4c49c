/* Opens and closes connections by both VFSes in one process, and lets another process say whether
 * the locks of those that stay open are still there. Also: a connection that changes threads. */
#include <dirent.h>
#include <pthread.h>
#include <sqlite3.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const char *path;

static void expect(bool holds, const char *what) {
    if (holds) return;
    fprintf(stderr, "not so: %s\n", what);
    exit(1);
}

static sqlite3 *open_by(const char *vfs, int flags) {
    sqlite3 *database;
    if (sqlite3_open_v2(path, &database, flags, vfs) != SQLITE_OK) {
        fprintf(stderr, "%s: %s\n", vfs, sqlite3_errmsg(database));
        exit(1);
    }
    return database;
}

static void run(sqlite3 *database, const char *sql) {
    char *error = NULL;
    if (sqlite3_exec(database, sql, NULL, NULL, &error) == SQLITE_OK) return;
    fprintf(stderr, "%s: %s\n", sql, error);
    exit(1);
}

/* Whether another process, with the default VFS, may write. */
static bool others_may_write(void) {
    char command[4096];
    snprintf(command, sizeof command, "sqlite3 -bail '%s' 'begin immediate; rollback' 2>/dev/null",
             path);
    return system(command) == 0;
}

/* Number of descriptors that this process has of the database. */
static int descriptors(void) {
    struct stat wanted, found;
    expect(stat(path, &wanted) == 0, "the database exists");
    DIR *directory = opendir("/proc/self/fd");
    expect(directory != NULL, "/proc is there");
    int count = 0;
    char name[300];
    for (struct dirent *entry; (entry = readdir(directory));) {
        snprintf(name, sizeof name, "/proc/self/fd/%s", entry->d_name);
        count += stat(name, &found) == 0 && found.st_ino == wanted.st_ino &&
                 found.st_dev == wanted.st_dev;
    }
    closedir(directory);
    return count;
}

/* While `holder` has a lock, connections of `visitor` come and go. */
static void visit(const char *holder, const char *visitor) {
    sqlite3 *held = open_by(holder, SQLITE_OPEN_READWRITE);
    run(held, "begin immediate; insert into t values(2)");
    expect(!others_may_write(), "the transaction has its lock");
    for (int i = 0; i < 3; i++) {
        sqlite3 *guest =
            open_by(visitor, i == 1 ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE);
        run(guest, "select count(*) from t");
        expect(sqlite3_close(guest) == SQLITE_OK, "it is closed");
        expect(!others_may_write(), "the transaction still has its lock");
    }
    run(held, "rollback");
    expect(others_may_write(), "the lock was given up");
    expect(sqlite3_close(held) == SQLITE_OK, "it is closed");
}

static void *insert_in_thread(void *database) {
    for (int i = 0; i < 20; i++) run(database, "insert into s values(randomblob(9000))");
    return NULL;
}

/* A transaction that is begun in one thread, goes on in another and ends in the first. */
static void change_threads(void) {
    sqlite3 *database = open_by("dio", SQLITE_OPEN_READWRITE | SQLITE_OPEN_FULLMUTEX);
    run(database, "pragma cache_size=5; create table s(b); begin");
    for (int i = 0; i < 5; i++) {
        insert_in_thread(database);
        pthread_t thread;
        expect(pthread_create(&thread, NULL, insert_in_thread, database) == 0, "there is a thread");
        pthread_join(thread, NULL);
    }
    run(database, "commit; pragma integrity_check; drop table s");
    expect(sqlite3_close(database) == SQLITE_OK, "it is closed");
}

int main(int count, char **arguments) {
    expect(count == 3, "the extension and the database are the arguments");
    path = arguments[2];
    sqlite3 *database;
    char *error = NULL;
    expect(sqlite3_open(":memory:", &database) == SQLITE_OK, "SQLite is there");
    sqlite3_enable_load_extension(database, 1);
    if (sqlite3_load_extension(database, arguments[1], NULL, &error) != SQLITE_OK) {
        fprintf(stderr, "%s\n", error);
        return 1;
    }
    sqlite3_close(database);

    const char *names[] = {"dio", "unix"};
    for (int holder = 0; holder < 2; holder++)
        for (int visitor = 0; visitor < 2; visitor++) visit(names[holder], names[visitor]);
    change_threads();
    /* What could not be closed in time is closed when another connection comes and goes. */
    sqlite3_close(open_by("dio", SQLITE_OPEN_READWRITE));
    expect(descriptors() == 0, "no descriptor of the database is left");
    return 0;
}
