/* Ends a program, or makes it fail, at the N-th call that touches the files of one folder: what a power cut,
 * an out-of-memory kill, a full disk or a bad disk would do at any moment. A shared library for LD_PRELOAD:
 *
 *   LD_PRELOAD=libkill_at_call.so KILL_AT_CALL_FOLDER=/tmp/x KILL_AT_CALL=3 PROGRAM ...
 *
 *   KILL_AT_CALL_FOLDER  only calls about files in this folder, or in folders below, count; it must exist
 *   KILL_AT_CALL         N = 1, 2, ...: the call that does not go well; unset: none
 *   KILL_AT_CALL_ERRNO   ENOSPC, EIO, EACCES, EDQUOT, EINTR or a number: the N-th call does nothing but fail
 * with this errno, and the program goes on. Unset: the program gets SIGKILL in place of the call; a write
 * gets it half done (the first half of its bytes is in the file).
 *
 * At the N-th call it says so on standard error: "kill_at_call: call 3, fsync of /tmp/x/file". A program that
 * ended without saying that made fewer than N calls: a test loops over N until then.
 *
 * Counted: open, openat, creat, fopen (whatever for), write, pwrite, writev, ftruncate, truncate, fallocate,
 * fsync, fdatasync, fchmod, rename, renameat, renameat2, link, symlink, unlink, unlinkat, remove, mkdir,
 * rmdir; a rename or link by its new name. Not counted: reading, closing, what goes around libc or through
 * stdio's buffers, mmap. Children inherit all this and count from 1 again. In a program built with
 * AddressSanitizer add verify_asan_link_order=0 to ASAN_OPTIONS.
 */
#define _GNU_SOURCE
#undef _FORTIFY_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

static atomic_long calls;

/* The function that we stand before. */
#define NEXT(name) (__extension__(__typeof__(&name)) dlsym(RTLD_NEXT, #name))

static int errno_to_give(void) {
  static const struct {
    const char* name;
    int number;
  } known[] = {{"ENOSPC", ENOSPC}, {"EIO", EIO}, {"EACCES", EACCES}, {"EDQUOT", EDQUOT}, {"EINTR", EINTR}};
  const char* text = getenv("KILL_AT_CALL_ERRNO");
  if (text == NULL || *text == '\0') return 0;
  for (size_t i = 0; i < sizeof known / sizeof *known; ++i) {
    if (strcmp(text, known[i].name) == 0) return known[i].number;
  }
  return atoi(text);
}

static void path_of_descriptor(int fd, char path[PATH_MAX]) {
  char link[64];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  const ssize_t length = readlink(link, path, PATH_MAX - 1);
  path[length < 0 ? 0 : length] = '\0';
}

/* `name`, relative to the folder open as `folder_fd`, as an absolute path whose folder has no links in it. */
static void absolute_path(int folder_fd, const char* name, char path[PATH_MAX]) {
  char whole[PATH_MAX * 2], folder[PATH_MAX];
  if (name[0] == '/') {
    snprintf(whole, sizeof whole, "%s", name);
  } else {
    if (folder_fd == AT_FDCWD) {
      if (getcwd(folder, sizeof folder) == NULL) folder[0] = '\0';
    } else {
      path_of_descriptor(folder_fd, folder);
    }
    snprintf(whole, sizeof whole, "%s/%s", folder, name);
  }
  if (realpath(whole, path) != NULL) return;
  char* last = strrchr(whole, '/');
  *last = '\0';
  if (realpath(*whole == '\0' ? "/" : whole, folder) == NULL) folder[0] = '\0';
  if (snprintf(path, PATH_MAX, "%s/%s", folder, last + 1) >= PATH_MAX) path[0] = '\0';
}

static int lies_in_folder(const char* path) {
  char folder[PATH_MAX];
  const char* name = getenv("KILL_AT_CALL_FOLDER");
  if (name == NULL || realpath(name, folder) == NULL) return 0;
  const size_t length = strlen(folder);
  return strncmp(path, folder, length) == 0 && (path[length] == '/' || path[length] == '\0');
}

/* Counts this call. Returns 1 when it is the one: the caller then does what must be half done and calls
 * `strike`. */
static int is_the_one(const char* call, const char* path) {
  const int saved = errno;
  int found = 0;
  if (lies_in_folder(path)) {
    const char* number = getenv("KILL_AT_CALL");
    const long count = atomic_fetch_add(&calls, 1) + 1;
    if (number != NULL && atol(number) == count) {
      char text[PATH_MAX + 100];
      const int length = snprintf(text, sizeof text, "kill_at_call: call %ld, %s of %s\n", count, call, path);
      syscall(SYS_write, 2, text, (size_t)length);
      found = 1;
    }
  }
  errno = saved;
  return found;
}

static int strike(void) {
  const int error = errno_to_give();
  if (error == 0) syscall(SYS_kill, getpid(), SIGKILL);
  errno = error;
  return -1;
}

static int path_call(const char* call, int folder_fd, const char* name) {
  const int saved = errno;
  char path[PATH_MAX];
  absolute_path(folder_fd, name, path);
  errno = saved;
  return is_the_one(call, path);
}

static int descriptor_call(const char* call, int fd) {
  const int saved = errno;
  char path[PATH_MAX];
  path_of_descriptor(fd, path);
  errno = saved;
  return is_the_one(call, path);
}

/* ---- open ---- */

#define MODE_ARGUMENT                               \
  mode_t mode = 0;                                  \
  if ((flags & O_CREAT) || (flags & __O_TMPFILE)) { \
    va_list arguments;                              \
    va_start(arguments, flags);                     \
    mode = va_arg(arguments, mode_t);               \
    va_end(arguments);                              \
  }

int open(const char* name, int flags, ...) {
  MODE_ARGUMENT
  return path_call("open", AT_FDCWD, name) ? strike() : NEXT(open)(name, flags, mode);
}

int open64(const char* name, int flags, ...) {
  MODE_ARGUMENT
  return path_call("open", AT_FDCWD, name) ? strike() : NEXT(open64)(name, flags, mode);
}

int openat(int folder, const char* name, int flags, ...) {
  MODE_ARGUMENT
  return path_call("open", folder, name) ? strike() : NEXT(openat)(folder, name, flags, mode);
}

int openat64(int folder, const char* name, int flags, ...) {
  MODE_ARGUMENT
  return path_call("open", folder, name) ? strike() : NEXT(openat64)(folder, name, flags, mode);
}

/* What a fortified libc turns an open without mode into. */
int __open_2(const char* name, int flags) { return open(name, flags); }
int __open64_2(const char* name, int flags) { return open64(name, flags); }
int __openat_2(int folder, const char* name, int flags) { return openat(folder, name, flags); }
int __openat64_2(int folder, const char* name, int flags) { return openat64(folder, name, flags); }

int creat(const char* name, mode_t mode) { return open(name, O_WRONLY | O_CREAT | O_TRUNC, mode); }
int creat64(const char* name, mode_t mode) { return open64(name, O_WRONLY | O_CREAT | O_TRUNC, mode); }

FILE* fopen(const char* name, const char* mode) {
  return path_call("open", AT_FDCWD, name) ? (strike(), NULL) : NEXT(fopen)(name, mode);
}

FILE* fopen64(const char* name, const char* mode) {
  return path_call("open", AT_FDCWD, name) ? (strike(), NULL) : NEXT(fopen64)(name, mode);
}

/* ---- write ---- */

ssize_t write(int fd, const void* bytes, size_t size) {
  if (!descriptor_call("write", fd)) return NEXT(write)(fd, bytes, size);
  if (errno_to_give() == 0) NEXT(write)(fd, bytes, size / 2);
  return strike();
}

ssize_t pwrite(int fd, const void* bytes, size_t size, off_t offset) {
  if (!descriptor_call("write", fd)) return NEXT(pwrite)(fd, bytes, size, offset);
  if (errno_to_give() == 0) NEXT(pwrite)(fd, bytes, size / 2, offset);
  return strike();
}

ssize_t pwrite64(int fd, const void* bytes, size_t size, off64_t offset) {
  if (!descriptor_call("write", fd)) return NEXT(pwrite64)(fd, bytes, size, offset);
  if (errno_to_give() == 0) NEXT(pwrite64)(fd, bytes, size / 2, offset);
  return strike();
}

ssize_t writev(int fd, const struct iovec* parts, int count) {
  if (!descriptor_call("write", fd)) return NEXT(writev)(fd, parts, count);
  if (errno_to_give() == 0) NEXT(writev)(fd, parts, count / 2);
  return strike();
}

/* ---- everything else, by descriptor and by path ---- */

int fsync(int fd) { return descriptor_call("fsync", fd) ? strike() : NEXT(fsync)(fd); }
int fdatasync(int fd) { return descriptor_call("fdatasync", fd) ? strike() : NEXT(fdatasync)(fd); }
int fchmod(int fd, mode_t mode) { return descriptor_call("fchmod", fd) ? strike() : NEXT(fchmod)(fd, mode); }

int ftruncate(int fd, off_t size) {
  return descriptor_call("ftruncate", fd) ? strike() : NEXT(ftruncate)(fd, size);
}

int ftruncate64(int fd, off64_t size) {
  return descriptor_call("ftruncate", fd) ? strike() : NEXT(ftruncate64)(fd, size);
}

int fallocate(int fd, int mode, off_t offset, off_t size) {
  return descriptor_call("fallocate", fd) ? strike() : NEXT(fallocate)(fd, mode, offset, size);
}

int fallocate64(int fd, int mode, off64_t offset, off64_t size) {
  return descriptor_call("fallocate", fd) ? strike() : NEXT(fallocate64)(fd, mode, offset, size);
}

int truncate(const char* name, off_t size) {
  return path_call("truncate", AT_FDCWD, name) ? strike() : NEXT(truncate)(name, size);
}

int truncate64(const char* name, off64_t size) {
  return path_call("truncate", AT_FDCWD, name) ? strike() : NEXT(truncate64)(name, size);
}

int rename(const char* old_name, const char* name) {
  return path_call("rename", AT_FDCWD, name) ? strike() : NEXT(rename)(old_name, name);
}

int renameat(int old_folder, const char* old_name, int folder, const char* name) {
  return path_call("rename", folder, name) ? strike() : NEXT(renameat)(old_folder, old_name, folder, name);
}

int renameat2(int old_folder, const char* old_name, int folder, const char* name, unsigned flags) {
  return path_call("rename", folder, name) ? strike()
                                           : NEXT(renameat2)(old_folder, old_name, folder, name, flags);
}

int link(const char* old_name, const char* name) {
  return path_call("link", AT_FDCWD, name) ? strike() : NEXT(link)(old_name, name);
}

int symlink(const char* target, const char* name) {
  return path_call("symlink", AT_FDCWD, name) ? strike() : NEXT(symlink)(target, name);
}

int unlink(const char* name) { return path_call("unlink", AT_FDCWD, name) ? strike() : NEXT(unlink)(name); }

int unlinkat(int folder, const char* name, int flags) {
  return path_call("unlink", folder, name) ? strike() : NEXT(unlinkat)(folder, name, flags);
}

int remove(const char* name) { return path_call("remove", AT_FDCWD, name) ? strike() : NEXT(remove)(name); }

int mkdir(const char* name, mode_t mode) {
  return path_call("mkdir", AT_FDCWD, name) ? strike() : NEXT(mkdir)(name, mode);
}

int rmdir(const char* name) { return path_call("rmdir", AT_FDCWD, name) ? strike() : NEXT(rmdir)(name); }
