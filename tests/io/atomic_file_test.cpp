#include "orthornn/io/atomic_file.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <initializer_list>
#include <string>

#include "orthornn/core/error.hpp"
#include "support/catch.hpp"
#include "support/child_process.hpp"
#include "support/temporary_folder.hpp"
#include "support/text_file.hpp"

namespace fs = std::filesystem;
using namespace orthornn;
using orthornn::testing::contains;
using orthornn::testing::content;
using orthornn::testing::message_from_child;
using orthornn::testing::TemporaryFolder;
using orthornn::testing::write_text;

namespace {

int entries(const fs::path& folder) {
  return static_cast<int>(std::distance(fs::directory_iterator(folder), fs::directory_iterator()));
}

// Root may do everything: become someone else.
void give_up_root() {
  if (geteuid() == 0 && setuid(65534) != 0) throw Error("no other user here");
}

}  // namespace

TEST_CASE("a file is written whole, new or in place of another", "[io][atomic_file]") {
  const TemporaryFolder folder;
  const fs::path file = folder / "file";
  const std::string large(3 << 20, 'x');
  for (const std::string& bytes : {std::string("first"), large, std::string(), std::string("a\0b", 3)}) {
    write_file_atomically(file, bytes);
    CHECK(content(file) == bytes);
    CHECK(entries(folder.path()) == 1);
  }
}

TEST_CASE("a name without a folder is one in the current folder", "[io][atomic_file]") {
  const TemporaryFolder folder;
  const auto write_there = [&] {
    fs::current_path(folder.path());
    write_file_atomically("file", "bytes");
  };
  CHECK(message_from_child(write_there) == "");
  CHECK(content(folder / "file") == "bytes");
}

TEST_CASE("what a killed process left is overwritten", "[io][atomic_file]") {
  const TemporaryFolder folder;
  write_text(folder / ".file.tmp", "a leftover that is longer than the new content");
  write_file_atomically(folder / "file", "new");
  CHECK(content(folder / "file") == "new");
  CHECK(entries(folder.path()) == 1);
}

TEST_CASE("a file keeps its permissions", "[io][atomic_file]") {
  const TemporaryFolder folder;
  const fs::path file = folder / "file";
  write_text(file, "old");
  fs::permissions(file, fs::perms(0640));
  write_file_atomically(file, "new");
  CHECK(content(file) == "new");
  CHECK(fs::status(file).permissions() == fs::perms(0640));
}

TEST_CASE("a symbolic link stays one, and what it points at is replaced", "[io][atomic_file]") {
  const TemporaryFolder folder;
  fs::create_directory(folder / "elsewhere");
  write_text(folder / "elsewhere/file", "old");
  fs::create_symlink("elsewhere/file", folder / "link");
  fs::create_symlink(folder / "link", folder / "link_to_link");
  write_file_atomically(folder / "link_to_link", "new");
  CHECK(content(folder / "elsewhere/file") == "new");
  CHECK(fs::is_symlink(folder / "link"));
  CHECK(fs::is_symlink(folder / "link_to_link"));

  fs::create_symlink("elsewhere/not_yet", folder / "dangling");
  write_file_atomically(folder / "dangling", "new");
  CHECK(content(folder / "elsewhere/not_yet") == "new");

  fs::create_symlink("loop", folder / "loop");
  CHECK_THROWS_AS(write_file_atomically(folder / "loop", "new"), FileError);
}

TEST_CASE("a place that cannot be written to is refused with its reason", "[io][atomic_file]") {
  const TemporaryFolder folder;
  write_text(folder / "file", "old");
  fs::create_directory(folder / "folder");
  const auto message = [](const fs::path& path) {
    try {
      write_file_atomically(path, "new");
    } catch (const FileError& error) {
      return std::string(error.what());
    }
    return std::string("written");
  };
  CHECK_THAT(message(folder / "missing/file"), contains("No such file or directory; create folder"));
  CHECK_THAT(message(folder / "file/file"), contains("Not a directory"));
  CHECK_THAT(message(folder / "folder"), contains("it is not a regular file"));
  CHECK_THAT(message(folder / "folder/"), contains("it is not a regular file"));
  CHECK_THAT(message(""), contains("it is not a regular file"));
  CHECK_THAT(message("/dev/null"), contains("it is not a regular file"));
  CHECK_THAT(message(folder / std::string(255, 'n')), contains("File name too long"));
  CHECK(content(folder / "file") == "old");
  CHECK(entries(folder.path()) == 2);
}

TEST_CASE("a folder without the right to write is refused", "[io][atomic_file]") {
  const TemporaryFolder folder;
  write_text(folder / "file", "old");
  fs::permissions(folder / "file", fs::perms(0666));
  fs::permissions(folder.path(), fs::perms(0555));
  const auto write_there = [&] {
    give_up_root();
    write_file_atomically(folder / "file", "new");
  };
  const std::string message = message_from_child(write_there);
  fs::permissions(folder.path(), fs::perms(0755));
  if (message == "no other user here") {
    WARN("not tested: this process is root and cannot become another user");
    return;
  }
  CHECK_THAT(message, contains("Permission denied; save to a folder that you may write to"));
  CHECK(content(folder / "file") == "old");
}

TEST_CASE("a read-only file is refused", "[io][atomic_file]") {
  const TemporaryFolder folder;
  const fs::path file = folder / "file";
  write_text(file, "old");
  fs::permissions(file, fs::perms(0444));
  fs::permissions(folder.path(), fs::perms(0777));
  const std::string message = message_from_child([&] {
    give_up_root();
    write_file_atomically(file, "new");
  });
  if (message == "no other user here") {
    WARN("not tested: this process is root and cannot become another user");
    return;
  }
  CHECK_THAT(message, contains("it is there already and read-only"));
  CHECK(content(file) == "old");
  CHECK(entries(folder.path()) == 1);
}

TEST_CASE("a full disk leaves the old file and nothing else", "[io][atomic_file]") {
  const TemporaryFolder folder;
  const fs::path file = folder / "file";
  write_text(file, "old");
  const auto write_too_much = [&] {
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{10000, 10000};
    setrlimit(RLIMIT_FSIZE, &limit);
    write_file_atomically(file, std::string(20000, 'x'));
  };
  CHECK_THAT(message_from_child(write_too_much), contains("File too large; raise the limit"));
  CHECK(content(file) == "old");
  CHECK(entries(folder.path()) == 1);
}

TEST_CASE("two processes that write one file leave it whole at every moment", "[io][atomic_file]") {
  const TemporaryFolder folder;
  const fs::path file = folder / "file";
  const std::string mine(100000, 'm');
  const std::string theirs(70000, 't');
  write_file_atomically(file, mine);
  const pid_t child = fork();
  if (child == 0) {
    try {
      for (int i = 0; i < 50; ++i) write_file_atomically(file, theirs);
    } catch (...) {
      _exit(1);
    }
    _exit(0);
  }
  for (int i = 0; i < 50; ++i) {
    write_file_atomically(file, mine);
    const std::string now = content(file);
    REQUIRE((now == mine || now == theirs));
  }
  int status = 0;
  waitpid(child, &status, 0);
  CHECK(status == 0);
  CHECK(entries(folder.path()) == 1);
}

TEST_CASE("a file is never locked against readers while it is saved", "[io][atomic_file][long]") {
  const TemporaryFolder folder;
  const fs::path file = folder / "file";
  write_file_atomically(file, "bytes");
  const pid_t child = fork();
  if (child == 0) {
    try {
      for (int i = 0; i < 1000; ++i) write_file_atomically(file, "bytes");
    } catch (...) {
      _exit(1);
    }
    _exit(0);
  }
  // What HDF5 does before it reads.
  int status = 0, refused = 0;
  while (waitpid(child, &status, WNOHANG) == 0) {
    const int reader = open(file.c_str(), O_RDONLY | O_CLOEXEC);
    REQUIRE(reader >= 0);
    refused += flock(reader, LOCK_SH | LOCK_NB) != 0;
    close(reader);
  }
  CHECK(status == 0);
  CHECK(refused == 0);
}
