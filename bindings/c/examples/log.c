/* A durable log: append, commit, read, recover, truncate, salvage. */
#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#include "example.h"

#define RECORDS 200

/* Called in a thread of the log. */
static void done(void *context, dio_error *error) {
    *(int *)context = error ? dio_error_errno(error) : -1;
    dio_error_free(error);
}

static uint64_t write_log(const char *directory) {
    dio_error *error = NULL;
    dio_wal_options options;
    memset(&options, 0, sizeof options); /* the defaults */
    options.segment_bytes = 1 << 20;
    dio_wal *wal = dio_wal_open(directory, &options, sizeof options, &error);
    if (!wal) stop(error);
    expect(dio_wal_open(directory, NULL, 0, &error) == NULL, "a log is open once");
    expect(dio_error_errno(error) == EBUSY, "the number is EBUSY");
    dio_error_free(error);

    uint64_t lsn = 0, hundredth = 0;
    for (int i = 0; i < RECORDS; i++) {
        char record[100];
        int length = snprintf(record, sizeof record, "record %d", i);
        if (dio_wal_append(wal, record, (size_t)length, &lsn, &error) != 0) stop(error);
        if (i == 100) hundredth = lsn;
    }
    if (dio_wal_commit(wal, lsn, &error) != 0) stop(error); /* All are durable from here on. */

    struct iovec parts[] = {{"in ", 3}, {"parts", 5}};
    int outcome = 0;
    if (dio_wal_appendv(wal, parts, 2, &lsn, &error) != 0) stop(error);
    if (dio_wal_commit_later(wal, lsn, done, &outcome, &error) != 0) stop(error);
    expect(dio_wal_commit(wal, UINT64_MAX / 2, NULL) == -ERANGE, "it was not appended");
    if (dio_wal_close(wal, &error) != 0) stop(error);
    expect(outcome == -1, "the callback was called, without an error");
    return hundredth;
}

static int read_log(const char *directory, uint64_t from) {
    dio_error *error = NULL;
    dio_wal_reader *reader = dio_wal_reader_open(directory, from, &error);
    if (!reader) stop(error);
    const void *record;
    size_t length;
    uint64_t lsn;
    int records = 0, found;
    char last[100] = "";
    while ((found = dio_wal_reader_next(reader, &record, &length, &lsn, &error)) > 0) {
        expect(lsn >= from && length < sizeof last, "the records are those from there on");
        memcpy(last, record, length);
        last[length] = 0;
        records++;
    }
    if (found < 0) stop(error);
    expect(strcmp(last, "in parts") == 0, "the last record is the last that was appended");
    if (dio_wal_reader_check_end(reader, &error) != 0) stop(error);
    dio_wal_reader_free(reader);
    return records;
}

static int take(void *context, uint64_t lsn, const void *record, size_t length) {
    (void)lsn, (void)record, (void)length;
    return ++*(int *)context == RECORDS + 1000 ? E2BIG : 0;
}

int main(int count, char **arguments) {
    (void)count;
    char *directory = name_in(arguments, "log");
    dio_error *error = NULL;
    expect(dio_wal_open(directory, NULL, 0, &error) == NULL, "the directory must exist");
    printf("%s\n", dio_error_text(error));
    dio_error_free(error);
    expect(mkdir(directory, 0755) == 0, "a directory can be made");

    uint64_t hundredth = write_log(directory);
    expect(read_log(directory, 0) == RECORDS + 1, "all records are there");
    expect(read_log(directory, hundredth) == RECORDS + 1 - 100, "reading may begin anywhere");

    dio_wal *wal = dio_wal_open(directory, NULL, 0, &error);
    if (!wal) stop(error);
    dio_wal_recovery recovery;
    if (dio_wal_recovery_of(wal, &recovery, sizeof recovery, &error) != 0) stop(error);
    expect(recovery.records == RECORDS + 1 && recovery.ended, "it was closed, so nothing is missing");
    if (dio_wal_truncate(wal, hundredth, &error) != 0) stop(error);
    uint64_t start, flushed, end;
    if (dio_wal_bounds(wal, &start, &flushed, &end, &error) != 0) stop(error);
    expect(start == hundredth && flushed == end, "the log begins there");
    dio_wal_reader *reader = dio_wal_reader_new(wal, hundredth, &error);
    if (!reader) stop(error);
    expect(dio_wal_reader_next(reader, NULL, NULL, NULL, &error) == 1, "it has a record");
    if (dio_wal_close(wal, &error) != 0) stop(error);
    dio_wal_reader_free(reader);

    int records = 0;
    dio_wal_salvaged salvaged;
    if (dio_wal_salvage(directory, take, &records, &salvaged, sizeof salvaged, &error) != 0)
        stop(error);
    expect(salvaged.records == (uint64_t)records && salvaged.gaps == 0, "nothing is lost");
    free(directory);
    return 0;
}
