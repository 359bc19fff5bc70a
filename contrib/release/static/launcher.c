/* The start of the static file: unpacks the archive behind it once for each user, and becomes svc.
 *
 * The archive (tar in gzip) holds glibc with its loader, CPython, the locked libraries and svc.  It is
 * unpacked below a cache directory, under a name of its own, and the loader from there is run: no
 * file of the machine is needed, nor a shell or /proc.  Where that is, and whom it trusts there, is as
 * in the other executable of a release (contrib/release/launcher.py).
 *
 * The same program without an archive is bin/python3 of what was unpacked, so that svc can start
 * processes with the Python that runs it.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <sha2.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>
#include <zlib.h>

#define MAGIC "svc-one\n"
#define NEW ".new-"         /* how the directories begin that a start unpacks into */
#define LEFT_SECS 3600      /* no start unpacks for so long */
#define LOCK_TURNS 1200     /* of 50 ms: a start that unpacks may be stopped, and is waited for that long */
#define MOST_LINKS 40       /* as many as Linux follows */
#define MOST_PLACES 5
#define MOST_MANIFEST (4 << 20)

static struct { /* the last 128 bytes of the file, written by contrib/release/static/build.py */
    char magic[8];
    uint64_t size;      /* of the archive, in bytes */
    uint64_t room;      /* that it needs on a disk when it is unpacked, in bytes */
    uint8_t digest[32]; /* SHA-256 of the archive */
    char name[72];      /* of the directory that it is unpacked into */
} trailer;

static char why[8192]; /* a line for each place that cannot be used */

/* Note a reason, a line of printf's.  Always 0, so that a check can return it. */
__attribute__((format(printf, 1, 2))) static int note(const char *format, ...) {
    size_t used = strlen(why);
    va_list rest;
    va_start(rest, format);
    vsnprintf(why + used, sizeof why - used, format, rest);
    va_end(rest);
    return 0;
}

static _Noreturn void fail(const char *text) {
    dprintf(STDERR_FILENO, "svc: %s%s%s", text, *why ? "\n" : "", why);
    if (!*why) dprintf(STDERR_FILENO, "\n");
    _exit(1);
}

/* A path as printf writes it; the program ends if it is longer than paths may be. */
__attribute__((format(printf, 2, 3))) static char *path_into(char *path, const char *format, ...) {
    va_list rest;
    va_start(rest, format);
    int size = vsnprintf(path, PATH_MAX, format, rest);
    va_end(rest);
    if (size < 0 || size >= PATH_MAX) fail("a path is too long");
    return path;
}

/* ---- where it may be unpacked ---- */

/* Whether nobody but root and us can lead this part of a path elsewhere. */
static int is_trusted(const char *part, const struct stat *found) {
    if (!S_ISLNK(found->st_mode) && !S_ISDIR(found->st_mode)) return note("  %s: is not a directory\n", part);
    if (found->st_uid && found->st_uid != geteuid())
        return note("  %s: belongs to another user (uid %u)\n", part, (unsigned)found->st_uid);
    /* In a sticky directory, such as /tmp, nobody replaces what belongs to others. */
    if (S_ISDIR(found->st_mode) && found->st_mode & 022 && !(found->st_mode & S_ISVTX))
        return note("  %s: other users may write to it\n", part);
    return 1;
}

/* Follow an absolute path, as far as there is one, into *place*; 0 if a part of it is not trusted. */
static int resolve(const char *wanted, char *place) {
    char rest[PATH_MAX], part[PATH_MAX], target[PATH_MAX], longer[PATH_MAX];
    struct stat found;
    path_into(place, "/");
    path_into(rest, "%s", wanted);
    if (lstat("/", &found) || !is_trusted("/", &found)) return 0;
    for (int links = 0; *rest;) {
        size_t size = strcspn(rest, "/");
        int is_up = size == 2 && !strncmp(rest, "..", 2);
        if (is_up && strcmp(place, "/")) *strrchr(place, '/') = 0;
        if (!*place) path_into(place, "/");
        path_into(part, "%s%s%.*s", place, strcmp(place, "/") ? "/" : "", (int)size, rest);
        int is_named = size && !is_up && !(size == 1 && *rest == '.');
        memmove(rest, rest + size + (rest[size] == '/'), strlen(rest + size + (rest[size] == '/')) + 1);
        if (!is_named) continue;
        if (lstat(part, &found)) return errno == ENOENT ? 1 : note("  %s: %s\n", part, strerror(errno));
        if (!is_trusted(part, &found)) return 0;
        if (!S_ISLNK(found.st_mode)) {
            path_into(place, "%s", part);
            continue;
        }
        ssize_t length = readlink(part, target, sizeof target - 1);
        if (length < 0 || ++links > MOST_LINKS) return note("  %s: too many links\n", part);
        target[length] = 0;
        if (*target == '/') path_into(place, "/");
        path_into(rest, "%s", path_into(longer, "%s/%s", target, rest));
    }
    return 1;
}

static int make_directories(const char *wanted) {
    char path[PATH_MAX];
    path_into(path, "%s", wanted);
    for (char *slash = path; slash;) {
        if ((slash = strchr(slash + 1, '/'))) *slash = 0;
        if (mkdir(path, 0700) && errno != EEXIST) {
            struct stat found; /* a read-only file system says so of directories that are there, too */
            int error = errno;
            if (stat(path, &found)) return note("  %s: %s\n", path, strerror(error));
        }
        if (slash) *slash = '/';
    }
    return 1;
}

/* The directory *wanted*, resolved into *place* and made where it is missing; only we may enter it. */
static int is_usable(const char *wanted, char *place) {
    struct stat found;
    struct statvfs mount;
    if (!resolve(wanted, place) || !make_directories(wanted) || !resolve(wanted, place)) return 0;
    if (lstat(place, &found) || statvfs(place, &mount)) return note("  %s: %s\n", place, strerror(errno));
    if (found.st_uid != geteuid())
        return note("  %s: belongs to another user (uid %u)\n", place, (unsigned)found.st_uid);
    if (found.st_mode & 077)
        return note("  %s: other users may enter it; let it have mode 0700, or remove it\n", place);
    if (mount.f_flag & ST_NOEXEC) return note("  %s: lies on a file system that is mounted noexec\n", place);
    return 1;
}

static int is_directory(const char *path) {
    struct stat found;
    return !stat(path, &found) && S_ISDIR(found.st_mode);
}

/* Where it may be unpacked, best first: the unit's cache, the caller's, a temporary one. */
static int candidates(char list[MOST_PLACES][PATH_MAX]) {
    int count = 0;
    const char *value;
    if ((value = getenv("CACHE_DIRECTORY")) && *value == '/')
        path_into(list[count++], "%.*s/svc", (int)strcspn(value, ":"), value);
    if ((value = getenv("XDG_CACHE_HOME")) && *value == '/') path_into(list[count++], "%s/svc", value);
    if ((value = getenv("HOME")) && *value == '/' && is_directory(value))
        path_into(list[count++], "%s/.cache/svc", value);
    const char *const temporary[] = {"/var/tmp", "/tmp"};
    for (size_t each = 0; each < sizeof temporary / sizeof *temporary; each++)
        if (is_directory(temporary[each]))
            path_into(list[count++], "%s/svc-%u", temporary[each], (unsigned)geteuid());
        else
            note("  %s: is not a directory\n", temporary[each]);
    return count;
}

/* ---- what lies there ---- */

/* Whether every file is there with its size.  All were on the disk before they got their name, so only
 * who removes or changes them is left: the machine, in /tmp. */
static int is_whole(const char *made) {
    struct stat status;
    char *text = NULL;
    int whole = 0, directory = open(made, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (directory < 0) return 0;
    int file = openat(directory, "MANIFEST", O_RDONLY | O_CLOEXEC);
    if (file >= 0 && !fstat(file, &status) && status.st_size <= MOST_MANIFEST && (text = calloc(1, status.st_size + 1))
        && read(file, text, status.st_size) == status.st_size) {
        for (char *line = text, *after, *name; (after = strchr(line, '\n')); line = after + 1) {
            *after = 0;
            if ((whole = !strcmp(line, "end"))) break;
            long long size = strtoll(line, &name, 10);
            if (*name != ' ' || fstatat(directory, name + 1, &status, AT_SYMLINK_NOFOLLOW)) break;
            if (!S_ISREG(status.st_mode) || status.st_size != size) break;
        }
    }
    free(text);
    if (file >= 0) close(file);
    close(directory);
    return whole;
}

static int remove_one(const char *path, const struct stat *status, int kind, struct FTW *where) {
    (void)status, (void)kind, (void)where;
    return remove(path), 0;
}

static void remove_tree(const char *path) { nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS); }

/* Remove what starts left that were killed while they unpacked. */
static void remove_left(const char *place) {
    DIR *all = opendir(place);
    struct stat status;
    char path[PATH_MAX];
    for (struct dirent *each; all && (each = readdir(all));)
        if (!strncmp(each->d_name, NEW, strlen(NEW)) && !lstat(path_into(path, "%s/%s", place, each->d_name), &status)
            && status.st_mtime < time(NULL) - LEFT_SECS)
            remove_tree(path);
    if (all) closedir(all);
}

/* ---- the archive ---- */

static struct {
    const char *called; /* this file */
    int file;
    off_t begin;   /* of the archive in it */
    uint64_t left; /* of the archive, not read yet */
    z_stream stream;
    uint8_t in[1 << 16];
} archive;

/* Read on; how many bytes lie in archive.in, 0 at the end. */
static size_t read_on(void) {
    size_t most = archive.left < sizeof archive.in ? archive.left : sizeof archive.in;
    ssize_t got = most ? read(archive.file, archive.in, most) : 0;
    if (got < 0 || (most && !got)) fail("cannot read the rest of this file");
    archive.left -= got;
    return got;
}

static void read_again(void) {
    archive.left = trailer.size;
    if (lseek(archive.file, archive.begin, SEEK_SET) < 0) fail("cannot read this file");
}

/* End unless the archive has its digest: nothing of another one is unpacked. */
static void check_digest(void) {
    uint8_t digest[SHA256_DIGEST_LENGTH];
    SHA2_CTX hash;
    SHA256Init(&hash);
    read_again();
    for (size_t got; (got = read_on());) SHA256Update(&hash, archive.in, got);
    SHA256Final(digest, &hash);
    if (memcmp(digest, trailer.digest, sizeof digest))
        fail("this file is damaged: what is in it does not have its digest; copy it again");
}

/* The next *size* bytes of the tar. */
static void next(void *into, size_t size) {
    archive.stream.next_out = into, archive.stream.avail_out = size;
    while (archive.stream.avail_out) {
        if (!archive.stream.avail_in)
            archive.stream.next_in = archive.in, archive.stream.avail_in = read_on();
        int result = inflate(&archive.stream, Z_NO_FLUSH);
        if (result != Z_OK && !(result == Z_STREAM_END && !archive.stream.avail_out))
            fail("this file is damaged: its archive cannot be unpacked; copy it again");
    }
}

/* The next member of the tar, a file of *size* bytes. */
static int unpack_file(const char *path, uint64_t size, mode_t mode) {
    static char data[1 << 16]; /* whole blocks of tar */
    int file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    if (file < 0) return note("  %s: %s\n", path, strerror(errno));
    for (uint64_t left = (size + 511) / 512 * 512, part; left; left -= part) {
        next(data, part = left < sizeof data ? left : sizeof data);
        size_t used = size < part ? size : part, done = 0;
        for (ssize_t wrote; done < used; done += wrote)
            if ((wrote = write(file, data + done, used - done)) <= 0) {
                note("  %s: %s\n", path, strerror(errno));
                return close(file), 0;
            }
        size -= used;
    }
    return close(file) ? note("  %s: %s\n", path, strerror(errno)) : 1;
}

/* Unpack all into the new directory *to*, down to the disk. */
static int unpack(const char *to) {
    char head[512], name[258], path[PATH_MAX];
    archive.stream = (z_stream){0};
    read_again();
    if (mkdir(to, 0700)) return note("  %s: %s\n", to, strerror(errno));
    if (inflateInit2(&archive.stream, 16 + MAX_WBITS) != Z_OK) fail("there is no memory to unpack this file");
    int done = 0;
    for (;;) {
        next(head, sizeof head);
        if ((done = !*head)) break;
        snprintf(name, sizeof name, "%.155s%s%.100s", head + 345, head[345] ? "/" : "", head);
        path_into(path, "%s/%s", to, name);
        if (head[156] != '5') {
            if (!unpack_file(path, strtoull(head + 124, NULL, 8), strtoul(head + 100, NULL, 8))) break;
        } else if (mkdir(path, 0700)) {
            note("  %s: %s\n", path, strerror(errno));
            break;
        }
    }
    inflateEnd(&archive.stream);
    int directory = open(to, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (done && (directory < 0 || syncfs(directory))) done = note("  %s: %s\n", to, strerror(errno));
    if (directory >= 0) close(directory);
    return done;
}

/* Unpack it as *made* in *place*, in the place of a damaged one if there is one. */
static int make(const char *place, const char *made) {
    char fresh[PATH_MAX], whole[PATH_MAX], damaged[PATH_MAX];
    struct statvfs mount;
    remove_left(place);
    uint64_t left = statvfs(place, &mount) ? 0 : (uint64_t)mount.f_bavail * mount.f_frsize;
    if (left < trailer.room)
        return note("  %s: %llu MB are needed there, and %llu MB are left\n", place,
                    (unsigned long long)trailer.room >> 20, (unsigned long long)left >> 20);
    if (!mkdtemp(path_into(fresh, "%s/" NEW "XXXXXX", place))) return note("  %s: %s\n", place, strerror(errno));
    path_into(whole, "%s/%s", fresh, trailer.name);
    path_into(damaged, "%s/damaged", fresh);
    int done = unpack(whole);
    if (done && rename(whole, made) && !is_whole(made)) /* if it is whole, another start was quicker */
        done = (!rename(made, damaged) && !rename(whole, made)) || note("  %s: %s\n", made, strerror(errno));
    remove_tree(fresh);
    return done;
}

/* Whether it lies in *place*, after this; one start unpacks it for all. */
static int is_there(const char *place, char *made) {
    path_into(made, "%s/%s", place, trailer.name);
    if (is_whole(made)) return 1;
    check_digest();
    int lock = open(place, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (int turn = 0; lock >= 0 && flock(lock, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK && turn < LOCK_TURNS; turn++)
        nanosleep(&(struct timespec){0, 50000000}, NULL);
    int done = is_whole(made) || make(place, made);
    if (lock >= 0) close(lock);
    return done;
}

/* ---- the Python ---- */

/* Become the Python in *made*, by the loader and with the libraries that lie there; -S: no packages of the
 * machine's.  Before *args* come the words of *first*, which ends with NULL. */
static _Noreturn void become(const char *made, char *called, char *const *first, char **args) {
    static char loader[PATH_MAX], libraries[PATH_MAX], named[PATH_MAX], python[PATH_MAX];
    path_into(loader, "%s/lib/svc", made); /* by our name: it is that of the process */
    path_into(libraries, "%s/lib", made);
    path_into(named, "%s/bin/python3", made); /* sys.executable, by which Python finds the rest */
    path_into(python, "%s/lib/python", made);
    char *const words[] = {called, "--inhibit-cache", "--library-path", libraries, "--argv0", named, python, "-S", "-B"};
    size_t count = 0, at = sizeof words / sizeof *words;
    while (args[count]) count++;
    char **all = calloc(at + count + 8, sizeof *all);
    if (!all) fail("there is no memory");
    memcpy(all, words, sizeof words);
    while (*first) all[at++] = *first++;
    memcpy(all + at, args, count * sizeof *args);
    execv(loader, all);
    note("  %s: %s\n", loader, strerror(errno));
    fail("what was unpacked cannot be run:");
}

/* Whether there is an archive behind the program, as the trailer says. */
static int has_archive(void) {
    off_t end = lseek(archive.file, 0, SEEK_END) - (off_t)sizeof trailer;
    if (end < 0 || pread(archive.file, &trailer, sizeof trailer, end) != sizeof trailer) return 0;
    if (memcmp(trailer.magic, MAGIC, sizeof trailer.magic)) return 0;
    archive.begin = end - (off_t)trailer.size;
    if (trailer.size > (uint64_t)end || !*trailer.name || trailer.name[sizeof trailer.name - 1]
        || strchr(trailer.name, '/'))
        fail("this file is damaged: its end is not as it was made; copy it again");
    return 1;
}

/* As bin/python3 of what was unpacked. */
static _Noreturn void as_python(char **argv) {
    static char self[PATH_MAX];
    const char suffix[] = "/bin/python3";
    size_t size = realpath(archive.called, self) ? strlen(self) : 0;
    if (size < sizeof suffix || strcmp(self + size - sizeof suffix + 1, suffix))
        fail("this file is not whole: its archive is missing; copy it again");
    self[size - sizeof suffix + 1] = 0;
    become(self, argv[0], (char *const[]){NULL}, argv + 1);
}

int main(int argc, char **argv) {
    static char list[MOST_PLACES][PATH_MAX], place[PATH_MAX], made[PATH_MAX], start[PATH_MAX];
    if (!argc || getuid() != geteuid() || getgid() != getegid())
        fail("runs as whoever calls it; remove its set-user-ID and set-group-ID bits");
    archive.called = (const char *)getauxval(AT_EXECFN); /* without /proc, too */
    archive.file = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    if (archive.file < 0) archive.file = open(archive.called, O_RDONLY | O_CLOEXEC);
    if (archive.file < 0) fail("cannot read this file");
    if (!has_archive()) as_python(argv);
    mode_t mask = umask(077);
    int count = candidates(list);
    for (int each = 0; each < count; each++) {
        if (!is_usable(list[each], place) || !is_there(place, made)) continue;
        umask(mask);
        path_into(start, "%s/start.py", made);
        become(made, argv[0], (char *const[]){"-I", start, (char *)archive.called, NULL}, argv + 1);
    }
    fail("there is no directory to unpack this file into; set XDG_CACHE_HOME to one that is yours alone, on a file "
         "system that lets programs run:");
}
