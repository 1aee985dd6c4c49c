/* Copies by name and of open files, and a file that is striped over two directories. */
#include <errno.h>
#include <sys/stat.h>

#include "example.h"

#define SIZE ((size_t)5000001)

static bool count_calls(void *context, uint64_t bytes) {
    (void)bytes;
    ++*(int *)context;
    return false;
}

static bool stop_at_once(void *context, uint64_t bytes) {
    (void)context, (void)bytes;
    return true;
}

static void make_source(const char *path) {
    dio_error *error = NULL;
    dio_file *file = dio_open(path, DIO_WRITE | DIO_CREATE, DIO_AUTO, 0640, &error);
    unsigned char *bytes = malloc(SIZE);
    if (!file) stop(error);
    expect(bytes != NULL, "there is memory");
    for (size_t i = 0; i < SIZE; i++) bytes[i] = (unsigned char)(i / 1000 + i);
    if (dio_pwrite(file, bytes, SIZE, 0, &error) < 0 || dio_close(file, &error) != 0) stop(error);
    free(bytes);
}

static void expect_same(const char *path) {
    dio_error *error = NULL;
    dio_file *file = dio_open(path, DIO_READ, DIO_AUTO, 0, &error);
    unsigned char *bytes = malloc(SIZE + 1);
    if (!file) stop(error);
    expect(bytes != NULL, "there is memory");
    expect(dio_pread(file, bytes, SIZE + 1, 0, &error) == (int64_t)SIZE, "the size is the same");
    for (size_t i = 0; i < SIZE; i++)
        expect(bytes[i] == (unsigned char)(i / 1000 + i), "the bytes are the same");
    free(bytes);
    if (dio_close(file, &error) != 0) stop(error);
}

int main(int count, char **arguments) {
    (void)count;
    char *source = name_in(arguments, "source"), *target = name_in(arguments, "target");
    char *striped = name_in(arguments, "striped");
    char *disks[] = {name_in(arguments, "disk1"), name_in(arguments, "disk2")};
    dio_error *error = NULL;
    make_source(source);

    /* Durable when it returns. */
    int calls = 0;
    if (dio_copy(source, target, 0, count_calls, &calls, &error) != (int64_t)SIZE) stop(error);
    expect(calls > 0, "the progress was told");
    expect_same(target);
    struct stat status;
    expect(stat(target, &status) == 0 && (status.st_mode & 0777) == 0640, "permissions are kept");
    expect(dio_copy(source, target, 0, NULL, NULL, NULL) == -EEXIST, "nothing is replaced unasked");
    expect(dio_copy(source, target, DIO_COPY_REPLACE, stop_at_once, NULL, NULL) == -ECANCELED,
           "a callback can stop it");
    expect_same(target);
    if (dio_copy(source, target, DIO_COPY_REPLACE, NULL, NULL, &error) < 0) stop(error);

    /* A striped file is opened by its name like any other. */
    for (int i = 0; i < 2; i++) expect(mkdir(disks[i], 0755) == 0, "a directory can be made");
    dio_stripe_plan plan = {(const char *const *)disks, 2, 65536, 0, false};
    if (dio_stripe_create(striped, &plan, &error) != 0) stop(error);
    dio_file *from = dio_open(source, DIO_READ, DIO_AUTO, 0, &error);
    dio_file *to = from ? dio_open(striped, DIO_READ | DIO_WRITE, DIO_AUTO, 0, &error) : NULL;
    if (!to) stop(error);
    dio_stripe_layout layout;
    if (dio_stripe_layout_of(to, &layout, sizeof layout, &error) != 0) stop(error);
    expect(layout.objects == 2 && layout.stripe_bytes == 65536, "it has the layout of the plan");
    if (dio_copy_contents(from, to, DIO_COPY_SPARSE, NULL, NULL, &error) < 0) stop(error);
    if (dio_sync(to, true, &error) != 0) stop(error);
    printf("%lld pages of it are cached\n", (long long)dio_resident_pages(to, NULL));
    if (dio_close(from, &error) != 0 || dio_close(to, &error) != 0) stop(error);
    expect_same(striped);

    char *names[] = {source, target, striped};
    for (int i = 0; i < 3; i++) {
        if (dio_unlink(names[i], &error) != 0) stop(error);
        free(names[i]);
    }
    for (int i = 0; i < 2; i++) free(disks[i]);
    return 0;
}
