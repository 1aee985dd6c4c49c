/* dio_vfs: a loadable SQLite VFS whose databases are read and written by direct I/O.
 *
 *     .load ./dio_vfs
 *     .open file:big.db?vfs=dio
 *
 * Pages of the database go through libdio. Everything else is the default VFS's: locks, shared
 * memory, journals, the write-ahead log, temporary files and names. So programs with the default VFS
 * and programs with this one may use a database at the same time.
 *
 * - Journals and the write-ahead log hold records that are not shaped like blocks, and each byte of
 *   them is read again only after a crash or, in the log, until the next checkpoint.
 * - The few bytes at the start of the file that SQLite reads at each transaction, to learn whether
 *   its own cache is still valid, come through the page cache: from the disk they would cost each
 *   transaction as much as a page.
 * - There is no memory-mapped I/O: PRAGMA mmap_size has no effect.
 *
 * PRAGMA dio_receipt tells how the bytes of the database went, as JSON.
 */
#include "vfs.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

SQLITE_EXTENSION_INIT1

/* Smaller reads and writes are not of pages. */
#define PAGE_BYTES_MIN 512

typedef struct {
    sqlite3_file base;
    SharedFile *shared;
    Gathered gathered;
    Ahead ahead;
    Checkpoint checkpoint;
    /* Whether pages may be gathered: false once the connection has said that it will not sync. Then
     * nothing but the write itself could report an error. */
    bool gathers;
    /* Whether pages may be read ahead: not with nolock=1, which says nothing of when others have
     * written. */
    bool reads_ahead;
    /* The lock that the connection has on the file, if it has more than none. */
    int level;
    /* Whether the bytes are elsewhere than in the file with the name. */
    bool is_striped;
    /* The error of gathered pages that could not be written. They are lost for this connection, so
     * it stays until the connection is closed. */
    int error;
    /* The file as the default VFS has it open follows behind this structure. */
} DioFile;

static DioFile *dio_of(sqlite3_file *file) { return (DioFile *)file; }

static sqlite3_file *real_of(sqlite3_file *file) { return (sqlite3_file *)(dio_of(file) + 1); }

static sqlite3_vfs *real_vfs(sqlite3_vfs *vfs) { return vfs->pAppData; }

/* Writes the gathered pages. Once that has failed, it always does. */
static int flush(DioFile *file) {
    if (file->error == SQLITE_OK) file->error = gathered_write(&file->gathered, file->shared);
    return file->error;
}

/* Whether the connection may gather pages: only if after the last of them SQLite makes a call that
 * writes them and whose error it heeds.
 *
 * So it is with a rollback journal, whose pages are written under the exclusive lock: a sync follows
 * (SQLITE_FCNTL_SYNC, xSync) before the journal is given up. And in a checkpoint under that lock,
 * which leaves nothing in the log: xTruncate and xSync follow.
 *
 * Any other checkpoint may be partial, because somebody reads an older snapshot or appends to the
 * log meanwhile. Then the writes are the last calls that SQLite heeds: all that it does afterwards is
 * to tell everyone to take the pages from the file. So a page is gathered only if another will be
 * written, which writes both: see checkpoint.c. */
static bool may_gather(const DioFile *file, int count, sqlite3_int64 offset) {
    return file->gathers && (file->level == SQLITE_LOCK_EXCLUSIVE ||
                             checkpoint_goes_on(&file->checkpoint, count, offset));
}

static int x_close(sqlite3_file *file) {
    DioFile *own = dio_of(file);
    int written = flush(own);
    /* First the default VFS, which gives up its locks: see shared.c. */
    int closed = real_of(file)->pMethods->xClose(real_of(file));
    shared_close(own->shared);
    gathered_free(&own->gathered);
    ahead_free(&own->ahead);
    file->pMethods = NULL;
    return written != SQLITE_OK ? written : closed;
}

static int x_read(sqlite3_file *file, void *buffer, int count, sqlite3_int64 offset) {
    DioFile *own = dio_of(file);
    bool overlaps;
    if (gathered_read(&own->gathered, buffer, count, offset, &overlaps)) return SQLITE_OK;
    if (overlaps) {
        int result = flush(own);
        if (result != SQLITE_OK) return result;
    }
    if (count < PAGE_BYTES_MIN && !own->is_striped)
        return real_of(file)->pMethods->xRead(real_of(file), buffer, count, offset);
    /* A window must not hold what gathered pages will replace in the file. */
    if (own->reads_ahead && own->gathered.count == 0 &&
        ahead_read(&own->ahead, own->shared->file, buffer, count, offset))
        return SQLITE_OK;
    dio_error *error = NULL;
    int64_t found = dio_pread(own->shared->file, buffer, (size_t)count, (uint64_t)offset, &error);
    if (found < 0) return failed(SQLITE_IOERR_READ, error);
    if (found == count) return SQLITE_OK;
    memset((char *)buffer + found, 0, (size_t)(count - found));
    return SQLITE_IOERR_SHORT_READ;
}

/* Makes the file reach to `end`, with space for all bytes that it gains. Holes before its end get
 * theirs when they are written. */
static int extend(DioFile *file, sqlite3_int64 end) {
    dio_error *error = NULL;
    int64_t size = dio_size(file->shared->file, &error);
    if (size < 0) return failed(SQLITE_IOERR_FSTAT, error);
    if (size >= end) return SQLITE_OK;
    if (dio_allocate(file->shared->file, (uint64_t)size, (uint64_t)(end - size), true, &error) == 0)
        return SQLITE_OK;
    if (dio_error_errno(error) != EOPNOTSUPP) return failed(SQLITE_IOERR_WRITE, error);
    /* The file system cannot allocate. Writing makes the file longer. */
    dio_error_free(error);
    return SQLITE_NOTFOUND;
}

static int x_write(sqlite3_file *file, const void *buffer, int count, sqlite3_int64 offset) {
    DioFile *own = dio_of(file);
    ahead_forget_range(&own->ahead, count, offset);
    int result = extend(own, offset + count);
    if (result != SQLITE_OK && result != SQLITE_NOTFOUND) return result;
    bool gathers =
        count >= PAGE_BYTES_MIN && may_gather(own, count, offset) && result == SQLITE_OK;
    if (own->error != SQLITE_OK) return own->error;
    if (gathers && gather(&own->gathered, buffer, count, offset)) return SQLITE_OK;
    result = flush(own);
    if (result != SQLITE_OK) return result;
    if (gathers && gather(&own->gathered, buffer, count, offset)) return SQLITE_OK;
    dio_error *error = NULL;
    if (dio_pwrite(own->shared->file, buffer, (size_t)count, (uint64_t)offset, &error) >= 0)
        return SQLITE_OK;
    shared_broke(own->shared);
    return failed(SQLITE_IOERR_WRITE, error);
}

static int x_truncate(sqlite3_file *file, sqlite3_int64 size) {
    DioFile *own = dio_of(file);
    ahead_forget(&own->ahead);
    int result = flush(own);
    if (result != SQLITE_OK) return result;
    dio_error *error = NULL;
    if (dio_truncate(own->shared->file, (uint64_t)size, &error) == 0) return SQLITE_OK;
    return failed(SQLITE_IOERR_TRUNCATE, error);
}

/* As the default VFS on Linux: fdatasync(2), whatever the flags. */
static int x_sync(sqlite3_file *file, int flags) {
    (void)flags;
    DioFile *own = dio_of(file);
    int result = flush(own);
    if (result != SQLITE_OK) return result;
    dio_error *error = NULL;
    if (dio_sync(own->shared->file, false, &error) == 0) return SQLITE_OK;
    shared_broke(own->shared);
    return failed(SQLITE_IOERR_FSYNC, error);
}

static int x_file_size(sqlite3_file *file, sqlite3_int64 *size) {
    dio_error *error = NULL;
    *size = dio_size(dio_of(file)->shared->file, &error);
    return *size >= 0 ? SQLITE_OK : failed(SQLITE_IOERR_FSTAT, error);
}

static int x_lock(sqlite3_file *file, int level) {
    DioFile *own = dio_of(file);
    ahead_forget(&own->ahead);
    int result = real_of(file)->pMethods->xLock(real_of(file), level);
    if (result == SQLITE_OK && level > own->level) own->level = level;
    return result;
}

/* Whoever gets the lock next must find the pages in the file. SQLite has synced them by now, or
 * given up: there are none. */
static int x_unlock(sqlite3_file *file, int level) {
    DioFile *own = dio_of(file);
    ahead_forget(&own->ahead);
    int written = own->gathered.count > 0 ? flush(own) : SQLITE_OK;
    int unlocked = real_of(file)->pMethods->xUnlock(real_of(file), level);
    if (level < own->level) own->level = level;
    return written != SQLITE_OK ? written : unlocked;
}

static int x_check_reserved_lock(sqlite3_file *file, int *held) {
    return real_of(file)->pMethods->xCheckReservedLock(real_of(file), held);
}

/* The receipt as JSON, in memory of SQLite's. */
static char *receipt_text(DioFile *file) {
    dio_receipt receipt;
    if (dio_receipt_of(file->shared->file, &receipt, sizeof receipt, NULL) != 0) return NULL;
    return sqlite3_mprintf(
        "{\"read\":{\"direct\":%llu,\"bounced\":%llu,\"uncached\":%llu,\"cached\":%llu},"
        "\"written\":{\"direct\":%llu,\"bounced\":%llu,\"uncached\":%llu,\"cached\":%llu},"
        "\"read_requests\":%llu,\"write_requests\":%llu,\"syncs\":%llu,\"pages\":%lld,"
        "\"engine\":\"%s\",\"reason\":%s%s%s}",
        (sqlite3_uint64)receipt.read.direct, (sqlite3_uint64)receipt.read.bounced,
        (sqlite3_uint64)receipt.read.uncached, (sqlite3_uint64)receipt.read.cached,
        (sqlite3_uint64)receipt.written.direct, (sqlite3_uint64)receipt.written.bounced,
        (sqlite3_uint64)receipt.written.uncached, (sqlite3_uint64)receipt.written.cached,
        (sqlite3_uint64)receipt.read_requests, (sqlite3_uint64)receipt.write_requests,
        (sqlite3_uint64)receipt.syncs,
        (sqlite3_int64)dio_resident_pages(file->shared->file, NULL), dio_engine(),
        receipt.reason ? "\"" : "", receipt.reason ? receipt.reason : "null",
        receipt.reason ? "\"" : "");
}

/* Whether a value of PRAGMA synchronous means that nothing will be synced. Of a number SQLite takes
 * the last three bits of its successor, and both 0 and 1 of these are off. */
static bool is_off(const char *value) {
    if (isdigit((unsigned char)value[0])) return ((atoi(value) + 1) & 7) <= 1;
    return strcasecmp(value, "off") == 0 || strcasecmp(value, "no") == 0 ||
           strcasecmp(value, "false") == 0;
}

static int pragma(DioFile *file, char **arguments) {
    const char *name = arguments[1], *value = arguments[2];
    if (strcasecmp(name, "dio_receipt") == 0) {
        (void)flush(file); /* the next write or sync fails, too */
        arguments[0] = receipt_text(file);
        return arguments[0] ? SQLITE_OK : SQLITE_NOMEM;
    }
    if (strcasecmp(name, "synchronous") == 0 && value && is_off(value)) {
        (void)flush(file); /* each later write fails, too */
        file->gathers = false;
    }
    return SQLITE_NOTFOUND;
}

static int x_file_control(sqlite3_file *file, int operation, void *argument) {
    DioFile *own = dio_of(file);
    int result = SQLITE_NOTFOUND;
    switch (operation) {
    case SQLITE_FCNTL_SIZE_HINT:
        result = extend(own, *(sqlite3_int64 *)argument);
        return result == SQLITE_NOTFOUND ? SQLITE_OK : result;
    case SQLITE_FCNTL_CHUNK_SIZE:
    case SQLITE_FCNTL_MMAP_SIZE:
        return SQLITE_NOTFOUND;
    case SQLITE_FCNTL_PRAGMA:
        result = pragma(own, argument);
        if (result != SQLITE_NOTFOUND) return result;
        break;
    case SQLITE_FCNTL_CKPT_START:
        checkpoint_begins(&own->checkpoint, real_of(file));
        break;
    case SQLITE_FCNTL_CKPT_DONE:
        checkpoint_ended(&own->checkpoint);
        /* Nothing is gathered any more, unless SQLite has given up, which writes nothing back. */
        if (own->level != SQLITE_LOCK_EXCLUSIVE) (void)flush(own);
        break;
    case SQLITE_FCNTL_SYNC:
    case SQLITE_FCNTL_COMMIT_PHASETWO:
        result = flush(own);
        if (result != SQLITE_OK) return result;
        break;
    default:
        break;
    }
    result = real_of(file)->pMethods->xFileControl(real_of(file), operation, argument);
    if (operation == SQLITE_FCNTL_VFSNAME && result == SQLITE_OK) {
        char **name = argument;
        *name = sqlite3_mprintf("dio/%z", *name);
    }
    return result;
}

static int x_sector_size(sqlite3_file *file) {
    return real_of(file)->pMethods->xSectorSize(real_of(file));
}

/* The default VFS writes batches atomically by commands of the file system (f2fs), to its own
 * descriptor. */
static int x_device_characteristics(sqlite3_file *file) {
    return real_of(file)->pMethods->xDeviceCharacteristics(real_of(file)) &
           ~SQLITE_IOCAP_BATCH_ATOMIC;
}

static int x_shm_map(sqlite3_file *file, int region, int size, int extend, void volatile **memory) {
    return real_of(file)->pMethods->xShmMap(real_of(file), region, size, extend, memory);
}

/* The lock that a checkpoint has (WAL_CKPT_LOCK). */
#define CHECKPOINT_LOCK 1

static int x_shm_lock(sqlite3_file *file, int offset, int count, int flags) {
    DioFile *own = dio_of(file);
    ahead_forget(&own->ahead);
    int result = real_of(file)->pMethods->xShmLock(real_of(file), offset, count, flags);
    if (offset == CHECKPOINT_LOCK && count == 1) {
        bool is_taken = result == SQLITE_OK && (flags & SQLITE_SHM_LOCK);
        if (is_taken) checkpoint_locked(&own->checkpoint, real_of(file));
        else checkpoint_ended(&own->checkpoint);
    }
    return result;
}

static void x_shm_barrier(sqlite3_file *file) {
    real_of(file)->pMethods->xShmBarrier(real_of(file));
}

static int x_shm_unmap(sqlite3_file *file, int delete_it) {
    return real_of(file)->pMethods->xShmUnmap(real_of(file), delete_it);
}

/* Without xFetch (version 3) SQLite maps no memory. */
static const sqlite3_io_methods methods_with_shm = {
    2, x_close, x_read, x_write, x_truncate, x_sync, x_file_size, x_lock, x_unlock,
    x_check_reserved_lock, x_file_control, x_sector_size, x_device_characteristics,
    x_shm_map, x_shm_lock, x_shm_barrier, x_shm_unmap, NULL, NULL};

static const sqlite3_io_methods methods_without_shm = {
    1, x_close, x_read, x_write, x_truncate, x_sync, x_file_size, x_lock, x_unlock,
    x_check_reserved_lock, x_file_control, x_sector_size, x_device_characteristics,
    NULL, NULL, NULL, NULL, NULL, NULL};

/* Opens a database, which the default VFS has open already, by libdio. */
static int open_database(sqlite3_file *file, const char *name, int flags) {
    DioFile *own = dio_of(file);
    own->gathers = !sqlite3_compileoption_used("DEFAULT_SYNCHRONOUS=0");
    own->reads_ahead = !sqlite3_uri_boolean(name, "nolock", 0);
    int number = shared_open(name, (flags & SQLITE_OPEN_READWRITE) != 0, &own->shared);
    if (number != 0) {
        sqlite3_log(SQLITE_CANTOPEN, "dio: cannot open '%s': %s", name, strerror(number));
        return number == ENOMEM ? SQLITE_NOMEM : SQLITE_CANTOPEN;
    }
    int moved = 0;
    sqlite3_file *real = real_of(file);
    real->pMethods->xFileControl(real, SQLITE_FCNTL_HAS_MOVED, &moved);
    dio_stripe_layout layout;
    if (moved || dio_stripe_layout_of(own->shared->file, &layout, sizeof layout, NULL) != 0) {
        sqlite3_log(SQLITE_CANTOPEN, "dio: '%s' was replaced while it was opened", name);
        return SQLITE_CANTOPEN;
    }
    own->is_striped = layout.stripe_bytes > 0;
    return SQLITE_OK;
}

static int x_open(sqlite3_vfs *vfs, const char *name, sqlite3_file *file, int flags, int *opened) {
    sqlite3_vfs *real = real_vfs(vfs);
    file->pMethods = NULL;
    if (!(flags & SQLITE_OPEN_MAIN_DB) || !name)
        return real->xOpen(real, name, file, flags, opened);
    int how = flags;
    *dio_of(file) = (DioFile){0};
    real_of(file)->pMethods = NULL;
    int result = real->xOpen(real, name, real_of(file), flags, &how);
    if (opened) *opened = how;
    const sqlite3_io_methods *methods = real_of(file)->pMethods;
    if (result == SQLITE_OK) {
        result = open_database(file, name, how);
        if (result == SQLITE_OK) {
            bool has_shm = methods->iVersion >= 2 && methods->xShmMap;
            file->pMethods = has_shm ? &methods_with_shm : &methods_without_shm;
            return SQLITE_OK;
        }
    }
    if (methods) methods->xClose(real_of(file));
    if (dio_of(file)->shared) shared_close(dio_of(file)->shared);
    file->pMethods = NULL;
    return result;
}

static int x_delete(sqlite3_vfs *vfs, const char *name, int sync) {
    return real_vfs(vfs)->xDelete(real_vfs(vfs), name, sync);
}

static int x_access(sqlite3_vfs *vfs, const char *name, int flags, int *result) {
    return real_vfs(vfs)->xAccess(real_vfs(vfs), name, flags, result);
}

static int x_full_pathname(sqlite3_vfs *vfs, const char *name, int size, char *out) {
    return real_vfs(vfs)->xFullPathname(real_vfs(vfs), name, size, out);
}

static void *x_dl_open(sqlite3_vfs *vfs, const char *name) {
    return real_vfs(vfs)->xDlOpen(real_vfs(vfs), name);
}

static void x_dl_error(sqlite3_vfs *vfs, int size, char *text) {
    real_vfs(vfs)->xDlError(real_vfs(vfs), size, text);
}

static void (*x_dl_sym(sqlite3_vfs *vfs, void *library, const char *symbol))(void) {
    return real_vfs(vfs)->xDlSym(real_vfs(vfs), library, symbol);
}

static void x_dl_close(sqlite3_vfs *vfs, void *library) {
    real_vfs(vfs)->xDlClose(real_vfs(vfs), library);
}

static int x_randomness(sqlite3_vfs *vfs, int size, char *out) {
    return real_vfs(vfs)->xRandomness(real_vfs(vfs), size, out);
}

static int x_sleep(sqlite3_vfs *vfs, int microseconds) {
    return real_vfs(vfs)->xSleep(real_vfs(vfs), microseconds);
}

static int x_current_time(sqlite3_vfs *vfs, double *now) {
    return real_vfs(vfs)->xCurrentTime(real_vfs(vfs), now);
}

static int x_get_last_error(sqlite3_vfs *vfs, int size, char *text) {
    return real_vfs(vfs)->xGetLastError(real_vfs(vfs), size, text);
}

static int x_current_time_int64(sqlite3_vfs *vfs, sqlite3_int64 *now) {
    return real_vfs(vfs)->xCurrentTimeInt64(real_vfs(vfs), now);
}

static sqlite3_vfs dio_vfs = {
    .iVersion = 2,
    .zName = "dio",
    .xOpen = x_open,
    .xDelete = x_delete,
    .xAccess = x_access,
    .xFullPathname = x_full_pathname,
    .xDlOpen = x_dl_open,
    .xDlError = x_dl_error,
    .xDlSym = x_dl_sym,
    .xDlClose = x_dl_close,
    .xRandomness = x_randomness,
    .xSleep = x_sleep,
    .xCurrentTime = x_current_time,
    .xGetLastError = x_get_last_error,
    .xCurrentTimeInt64 = x_current_time_int64,
};

/* Called by .load and sqlite3_load_extension(). The library stays loaded. */
__attribute__((visibility("default"))) int sqlite3_diovfs_init(sqlite3 *database, char **error,
                                                               const sqlite3_api_routines *api);

int sqlite3_diovfs_init(sqlite3 *database, char **error, const sqlite3_api_routines *api) {
    SQLITE_EXTENSION_INIT2(api);
    (void)database;
    if (sqlite3_vfs_find("dio")) return SQLITE_OK_LOAD_PERMANENTLY;
    sqlite3_vfs *real = sqlite3_vfs_find("unix");
    if (!real || real->iVersion < 2) {
        *error = sqlite3_mprintf("dio: there is no VFS named \"unix\" to build on");
        return SQLITE_ERROR;
    }
    dio_vfs.szOsFile = (int)sizeof(DioFile) + real->szOsFile;
    dio_vfs.mxPathname = real->mxPathname;
    dio_vfs.pAppData = real;
    int result = sqlite3_vfs_register(&dio_vfs, 0);
    return result == SQLITE_OK ? SQLITE_OK_LOAD_PERMANENTLY : result;
}
