/* Reads and writes of any length, at any offset, with any memory; and what became of them. */
#include <errno.h>

#include "example.h"

/* An error has a number, a text and, where it is known, a cure. */
static void show_errors(char *path) {
    dio_error *error = NULL;
    expect(dio_open("/no/such/file", DIO_READ, DIO_AUTO, 0, &error) == NULL, "there is no file");
    expect(dio_error_errno(error) == ENOENT, "the number is ENOENT");
    printf("%s\n", dio_error_text(error));
    dio_error_free(error);

    /* Who does not want the object gets the number. */
    char byte;
    expect(dio_pread(NULL, &byte, 1, 0, NULL) == -EFAULT, "NULL is no file");
    expect(dio_open(path, DIO_READ, 99, 0, NULL) == NULL, "there is no mode 99");

    dio_file *file = dio_open(path, DIO_READ, DIO_AUTO, 0, &error);
    if (!file) stop(error);
    expect(dio_pwrite(file, "x", 1, 7, &error) == -EBADF, "the file is open for reading only");
    expect(dio_error_cure(error) != NULL, "the cure is known");
    expect(dio_error_offset(error) == 7, "the offset is known");
    expect(dio_pread(file, &byte, 1, UINT64_MAX, NULL) == -EOVERFLOW, "no file is so long");
    expect(dio_pread(file, NULL, 1, 0, NULL) == -EFAULT, "NULL is no memory");
    dio_error_free(error);
    if (dio_close(file, &error) != 0) stop(error);
}

int main(int count, char **arguments) {
    (void)count;
    char *path = name_in(arguments, "data");
    dio_error *error = NULL;
    dio_file *file =
        dio_open(path, DIO_READ | DIO_WRITE | DIO_CREATE, DIO_AUTO, 0644, &error);
    if (!file) stop(error);

    /* Neither the offset nor the length nor the memory is aligned. */
    char text[] = "any length, at any offset";
    if (dio_pwrite(file, text, sizeof text, 4097, &error) < 0) stop(error);
    char back[sizeof text];
    if (dio_pread(file, back, sizeof back, 4097, &error) != sizeof back) stop(error);
    expect(memcmp(text, back, sizeof text) == 0, "what was written is read");
    expect(dio_pread(file, back, sizeof back, 4097 + 20, &error) == 6, "the file ends there");

    /* Several buffers at once. */
    char one[3] = "abc", two[5000];
    memset(two, 'd', sizeof two);
    struct iovec parts[] = {{one, sizeof one}, {two, sizeof two}};
    if (dio_pwritev(file, parts, 2, 10, &error) != 5003) stop(error);
    memset(two, 0, sizeof two);
    if (dio_preadv(file, parts, 2, 9, &error) != 5003) stop(error);
    expect(one[1] == 'a' && two[0] == 'c' && two[4999] == 'd', "both buffers are filled");
    if (dio_appendv(file, parts, 1, &error) != 3) stop(error);

    /* Aligned memory and whole blocks are not copied. */
    dio_alignment alignment;
    if (dio_alignment_of(file, &alignment, sizeof alignment, &error) != 0) stop(error);
    size_t size = 1 << 20;
    unsigned char *memory = dio_alloc(size);
    expect(memory && memory[0] == 0 && memory[size - 1] == 0, "the memory is zeroed");
    memset(memory, 7, size);
    if (dio_allocate(file, 0, size, true, &error) != 0 && dio_error_errno(error) != EOPNOTSUPP)
        stop(error);
    if (dio_pwrite(file, memory, size, 0, &error) < 0) stop(error);
    if (dio_sync(file, false, &error) != 0) stop(error);
    dio_free(memory);

    dio_receipt receipt;
    if (dio_receipt_of(file, &receipt, sizeof receipt, &error) != 0) stop(error);
    printf("written: %llu direct, %llu bounced, %llu uncached; most because: %s\n",
           (unsigned long long)receipt.written.direct, (unsigned long long)receipt.written.bounced,
           (unsigned long long)receipt.written.uncached, receipt.reason ? receipt.reason : "-");
    expect(receipt.written.direct >= size || receipt.written.uncached >= size, "it is counted");
    expect(receipt.syncs == 1, "there was one sync");

    if (dio_truncate(file, 100, &error) != 0) stop(error);
    expect(dio_size(file, &error) == 100, "the file was cut off");
    if (dio_close(file, &error) != 0) stop(error);
    show_errors(path);
    if (dio_unlink(path, &error) != 0) stop(error);
    free(path);
    return 0;
}
