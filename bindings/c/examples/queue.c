/* Many requests in flight: writes of whole blocks, then reads of arbitrary ranges. */
#include <errno.h>
#include <pthread.h>

#include "example.h"

#define BLOCK 4096
#define BLOCKS 256
#define DEPTH 64

/* Waits for all requests, and fails if one did. */
static void finish(dio_queue *queue, const int64_t *expected) {
    dio_error *error = NULL;
    while (dio_queue_in_flight(queue, NULL) > 0) {
        dio_completion done[16];
        int count = dio_queue_wait(queue, 1, done, 16, &error);
        if (count < 0) stop(error);
        for (int i = 0; i < count; i++) {
            if (done[i].error) stop(done[i].error);
            expect(done[i].result == expected[done[i].tag], "all bytes were transferred");
        }
    }
}

static void write_blocks(dio_file *file, dio_queue *queue, unsigned char *memory) {
    dio_error *error = NULL;
    int64_t expected[DEPTH];
    for (int first = 0; first < BLOCKS; first += DEPTH) {
        for (int i = 0; i < DEPTH; i++) {
            unsigned char *block = memory + (size_t)(first + i) * BLOCK;
            memset(block, first + i, BLOCK);
            expected[i] = BLOCK;
            if (dio_queue_write(queue, file, block, BLOCK, (uint64_t)(first + i) * BLOCK,
                                (uint64_t)i, &error) != 0)
                stop(error);
        }
        expect(dio_queue_sync(queue, file, false, 0, NULL) == -EAGAIN, "the queue is full");
        if (dio_queue_submit(queue, &error) != 0) stop(error);
        finish(queue, expected);
    }
}

static void read_ranges(dio_file *file, dio_queue *queue) {
    dio_error *error = NULL;
    int64_t expected[DEPTH];
    unsigned char *buffers[DEPTH];
    for (int i = 0; i < DEPTH; i++) {
        /* Odd lengths at odd offsets into memory of malloc(). */
        size_t length = (size_t)(i * 1001 % 9000) + 1;
        uint64_t offset = (uint64_t)i * 16001;
        expected[i] = (int64_t)length;
        if (offset + length > (uint64_t)BLOCK * BLOCKS)
            expected[i] = (int64_t)((uint64_t)BLOCK * BLOCKS - offset);
        buffers[i] = malloc(length);
        expect(buffers[i] != NULL, "there is memory");
        if (dio_queue_read(queue, file, buffers[i], length, offset, (uint64_t)i, &error) != 0)
            stop(error);
    }
    finish(queue, expected);
    for (int i = 0; i < DEPTH; i++) {
        for (int64_t at = 0; at < expected[i]; at++)
            expect(buffers[i][at] == (unsigned char)(((uint64_t)i * 16001 + (uint64_t)at) / BLOCK),
                   "the bytes are those of the file");
        free(buffers[i]);
    }
}

/* A queue belongs to its thread. */
static void *use_elsewhere(void *queue) {
    expect(dio_queue_wait(queue, 0, NULL, 0, NULL) == -EPERM, "another thread may not wait");
    expect(dio_queue_free(queue, NULL) == -EPERM, "another thread may not free");
    return NULL;
}

int main(int count, char **arguments) {
    (void)count;
    char *path = name_in(arguments, "blocks");
    dio_error *error = NULL;
    dio_file *file =
        dio_open(path, DIO_READ | DIO_WRITE | DIO_CREATE, DIO_CONCURRENT, 0644, &error);
    if (!file) stop(error);
    /* Writes that extend a file run one at a time, so its size is set first. */
    if (dio_truncate(file, (uint64_t)BLOCK * BLOCKS, &error) != 0) stop(error);
    unsigned char *memory = dio_alloc((size_t)BLOCK * BLOCKS);
    expect(memory != NULL, "there is memory");
    dio_queue *queue = dio_queue_new(DEPTH, &error);
    if (!queue) stop(error);
    printf("the engine is %s\n", dio_engine());

    write_blocks(file, queue, memory);
    read_ranges(file, queue);

    /* A write across the end of the file, and a sync, which comes after it. */
    const int64_t expected[] = {5, 0};
    if (dio_queue_write(queue, file, "end!", 5, (uint64_t)BLOCK * BLOCKS - 2, 0, &error) != 0 ||
        dio_queue_sync(queue, file, true, 1, &error) != 0)
        stop(error);
    finish(queue, expected);
    expect(dio_size(file, NULL) == (int64_t)BLOCK * BLOCKS + 3, "the file has grown");

    pthread_t thread;
    expect(pthread_create(&thread, NULL, use_elsewhere, queue) == 0, "there is a thread");
    pthread_join(thread, NULL);

    /* What is in flight when a queue is freed is finished first. */
    unsigned char rest[100];
    if (dio_queue_read(queue, file, rest, sizeof rest, 1, 0, &error) != 0) stop(error);
    if (dio_queue_free(queue, &error) != 0) stop(error);
    expect(rest[0] == 0 && rest[99] == 0, "it was read");
    if (dio_close(file, &error) != 0) stop(error);
    if (dio_unlink(path, &error) != 0) stop(error);
    dio_free(memory);
    free(path);
    return 0;
}
