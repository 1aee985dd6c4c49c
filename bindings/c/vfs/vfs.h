/* The parts of the SQLite VFS "dio": see dio_vfs.c. */
#ifndef DIO_VFS_H
#define DIO_VFS_H

#include <dio.h>
#include <sqlite3ext.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Largest number of bytes that a file gathers before it writes them. */
#define GATHERED_BYTES_MAX ((size_t)1 << 20)
/* Largest number of places in the file to which gathered bytes go. */
#define RUNS_MAX 256

/* shared.c: the files of the process as libdio has them open. ---------------------------------- */

/* A database file, shared by all connections of the process. */
typedef struct SharedFile {
    dio_file *file;
    dev_t device;
    ino_t inode;
    bool writable;
    /* A write or sync failed. libdio refuses all later ones, so new connections open it anew. */
    bool broken;
    int users;
    struct SharedFile *next;
} SharedFile;

/* Opens the file, or shares it if the process has it open. Returns an error number of <errno.h>, or
 * 0. The file must be the one that the default VFS has just opened by this name. */
int shared_open(const char *path, bool writable, SharedFile **shared);

/* Gives it back, after the default VFS has closed its own descriptor. */
void shared_close(SharedFile *shared);

/* Notes that a write or sync failed. */
void shared_broke(SharedFile *shared);

/* gather.c: pages on their way to the file. ------------------------------------------------------ */

/* Consecutive bytes of the file. */
typedef struct {
    sqlite3_int64 offset;
    size_t start; /* in `memory` */
    size_t length;
} Run;

/* Pages that SQLite has written and the file has not, disjoint. */
typedef struct {
    unsigned char *memory; /* GATHERED_BYTES_MAX bytes, from the first page on */
    size_t used;
    Run runs[RUNS_MAX];
    int count;
} Gathered;

/* Takes a page. Returns false if it cannot: then nothing has changed, and the gathered pages must be
 * written first. */
bool gather(Gathered *gathered, const void *page, int count, sqlite3_int64 offset);

/* Copies gathered bytes into `page`, if all of them are there. Returns false otherwise, and whether
 * some are in `overlaps`. */
bool gathered_read(const Gathered *gathered, void *page, int count, sqlite3_int64 offset,
                   bool *overlaps);

/* Writes everything, all requests in flight together. Returns a result of SQLite's. */
int gathered_write(Gathered *gathered, SharedFile *shared);

/* Frees the memory. */
void gathered_free(Gathered *gathered);

/* ahead.c: reading ahead of a scan. --------------------------------------------------------------- */

/* Largest number of bytes that are read ahead. SQLite waits for each window, so it is large: libdio
 * reads it by several requests at a time. Scans with windows of 1 MiB took 1.6 times as long. */
#define AHEAD_BYTES_MAX ((size_t)4 << 20)

/* What was read ahead of a scan, and what the last reads were. */
typedef struct {
    unsigned char *memory; /* AHEAD_BYTES_MAX bytes, from the first window on */
    sqlite3_int64 offset;  /* in the file, of the first byte */
    size_t length;
    size_t used;        /* bytes of them that SQLite has read */
    sqlite3_int64 next; /* where the last read of the scan ended */
    size_t window;      /* bytes of the last window of this scan, or 0 */
    int streak;         /* reads in order */
    int asides;         /* reads elsewhere since the last of them */
} Ahead;

/* Reads a page, if it was read ahead or begins a window. Returns false otherwise. */
bool ahead_read(Ahead *ahead, dio_file *file, void *page, int count, sqlite3_int64 offset);

/* Forgets the bytes, because the file may change from now on or has changed. */
void ahead_forget(Ahead *ahead);

/* As ahead_forget(), if some of the bytes are in this range, which changes. */
void ahead_forget_range(Ahead *ahead, int count, sqlite3_int64 offset);

/* Frees the memory. */
void ahead_free(Ahead *ahead);

/* checkpoint.c: how far a checkpoint will write. -------------------------------------------------- */

/* What a connection knows of the checkpoint that it runs. */
typedef struct {
    bool is_known;            /* what the header of the log's index was when the lock was taken */
    unsigned char header[48]; /* that header */
    unsigned last_page;       /* a page that will be written, in the order of the file; 0: none */
} Checkpoint;

/* Notes that the connection has got the lock of a checkpoint. `real` is the file of the default
 * VFS. */
void checkpoint_locked(Checkpoint *checkpoint, sqlite3_file *real);

/* Finds out how far the checkpoint that begins now will write. */
void checkpoint_begins(Checkpoint *checkpoint, sqlite3_file *real);

/* Notes that the checkpoint writes nothing more. */
void checkpoint_ended(Checkpoint *checkpoint);

/* Whether the checkpoint will write another page after this one. */
bool checkpoint_goes_on(const Checkpoint *checkpoint, int count, sqlite3_int64 offset);

/* Logs an error and frees it. Returns `code`, or SQLITE_FULL if space has run out. */
int failed(int code, dio_error *error);

#endif
