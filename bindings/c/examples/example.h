/* What the examples share: each does its work in a directory given on the command line, and ends
 * with status 1 and a message if anything is not as it should be. */
#ifndef EXAMPLE_H
#define EXAMPLE_H

#include <dio.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Ends the program with what libdio says about an error. */
static inline void stop(dio_error *error) {
    fprintf(stderr, "%s\n", dio_error_text(error));
    dio_error_free(error);
    exit(1);
}

/* Ends the program unless `holds`. */
static inline void expect(bool holds, const char *what) {
    if (holds) return;
    fprintf(stderr, "not so: %s\n", what);
    exit(1);
}

/* The name of a file in the directory of the command line; the caller frees it. */
static inline char *name_in(char **arguments, const char *name) {
    expect(arguments[1] != NULL, "the directory to work in is the first argument");
    size_t size = strlen(arguments[1]) + strlen(name) + 2;
    char *path = malloc(size);
    expect(path != NULL, "there is memory");
    snprintf(path, size, "%s/%s", arguments[1], name);
    return path;
}

#endif
