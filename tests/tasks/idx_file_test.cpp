#include "tasks/mnist/idx_file.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <initializer_list>
#include <thread>

#include "orthornn/core/error.hpp"
#include "support/catch.hpp"
#include "support/error_message.hpp"
#include "support/idx_writer.hpp"
#include "support/temporary_folder.hpp"

using namespace orthornn;
using namespace orthornn::testing;

namespace {

const Bytes six{10, 20, 30, 40, 50, 255};

/// What reading says of a plain file with these bytes.
std::string message_for(const Bytes& bytes, int rank) {
  const TemporaryFolder folder;
  write_plain(folder.path() / "file", bytes);
  return error_message<FileError>([&] { read_idx(folder.path() / "file", rank); });
}

}  // namespace

TEST_CASE("An IDX file reads the same, gzipped or not", "[idx_file]") {
  const TemporaryFolder folder;
  const bool gzipped = GENERATE(false, true);
  const auto write = gzipped ? write_gzipped : write_plain;
  write(folder.path() / "images", idx_bytes({1, 2, 3}, six));
  const Tensor<std::uint8_t> images = read_idx(folder.path() / "images", 3);
  CHECK(images.shape() == Shape{1, 2, 3});
  CHECK(std::ranges::equal(images, six));

  write(folder.path() / "labels", idx_bytes({6}, six));
  const Tensor<std::uint8_t> labels = read_idx(folder.path() / "labels", 1);
  CHECK(labels.shape() == Shape{6});
  CHECK(std::ranges::equal(labels, six));
}

TEST_CASE("IDX sizes are big-endian and 32 bits wide", "[idx_file]") {
  const TemporaryFolder folder;
  Bytes data(70000);
  data.back() = 9;
  write_gzipped(folder.path() / "file", idx_bytes({70000}, data));  // 0x00011170; hardly anything when packed
  const Tensor<std::uint8_t> labels = read_idx(folder.path() / "file", 1);
  CHECK(labels.size() == 70000);
  CHECK(labels(69999) == 9);
}

TEST_CASE("IDX errors name the file and what to do", "[idx_file]") {
  const TemporaryFolder folder;
  const std::filesystem::path missing = folder.path() / "missing-idx3-ubyte";
  const std::string message = error_message<FileError>([&] { read_idx(missing, 3); });
  CHECK_THAT(message, contains(missing.string()));
  CHECK_THAT(message, contains("No such file"));
  CHECK_THAT(message, contains("tools/fetch-data mnist"));
  CHECK_THAT(error_message<FileError>([&] { read_idx(folder.path(), 3); }), contains("directory"));
}

TEST_CASE("An IDX file of another kind is an error", "[idx_file]") {
  CHECK_THAT(message_for(idx_bytes({6}, six), 3), contains("expected the magic number 00 00 08 03"));
  CHECK_THAT(message_for(idx_bytes({6}, six), 3), contains("found 00 00 08 01"));
  CHECK_THAT(message_for(idx_bytes({1, 2, 3}, six), 1), contains("found 00 00 08 03"));
  Bytes floats = idx_bytes({6}, six);
  floats[2] = 0x0d;
  CHECK_THAT(message_for(floats, 1), contains("found 00 00 0d 01"));
  const std::string page = "<!DOCTYPE html>";
  CHECK_THAT(message_for(Bytes(page.begin(), page.end()), 3), contains("found 3c 21 44 4f"));
}

TEST_CASE("An IDX file of another length than its header says is an error", "[idx_file]") {
  const Bytes whole = idx_bytes({1, 2, 3}, six);
  CHECK(message_for(whole, 3).empty());
  for (std::size_t size = 0; size < whole.size(); ++size) {
    const std::string message =
        message_for(Bytes(whole.begin(), whole.begin() + static_cast<Index>(size)), 3);
    CAPTURE(size, message);
    CHECK_THAT(message, contains(size < 16 ? "expected a header of 16 bytes, found " + std::to_string(size)
                                           : "expected 6 bytes of data ([1, 2, 3]), found " +
                                                 std::to_string(size - 16)));
  }
  Bytes longer = whole;
  longer.push_back(0);
  CHECK_THAT(message_for(longer, 3), contains("expected 6 bytes of data ([1, 2, 3]), found more"));
}

TEST_CASE("An IDX header cannot ask for absurd memory", "[idx_file]") {
  const std::uint32_t huge = 0xffffffff;
  CHECK_THAT(message_for(idx_bytes({huge, huge, huge}, six), 3), contains("promises more data"));
  CHECK_THAT(message_for(idx_bytes({huge}, six), 1), contains("promises more data"));
  CHECK_THAT(message_for(idx_bytes({6, 0, 1}, six), 3), contains("found a 0 as dimension 1"));
}

TEST_CASE("A gzipped IDX file that is cut or damaged is an error", "[idx_file]") {
  const TemporaryFolder folder;
  const std::filesystem::path path = folder.path() / "file.gz";
  Bytes data(1000);
  for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<std::uint8_t>(i * i * 7 >> 3);
  write_gzipped(path, idx_bytes({1000}, data));
  const Bytes whole = read_bytes(path);
  REQUIRE(read_idx(path, 1).size() == 1000);

  for (const std::size_t missing : {1, 8, 9, 200}) {  // checksum and length take the last eight bytes
    write_plain(path, Bytes(whole.begin(), whole.end() - static_cast<Index>(missing)));
    CAPTURE(missing);
    CHECK_THAT(error_message<FileError>([&] { read_idx(path, 1); }), contains("unexpected end of file"));
  }
  Bytes damaged = whole;
  damaged[damaged.size() - 8] ^= 1;  // the checksum
  write_plain(path, damaged);
  CHECK_THAT(error_message<FileError>([&] { read_idx(path, 1); }), contains("incorrect data check"));
}

TEST_CASE("An IDX file whose size the system does not tell is an error of ours", "[idx_file]") {
  const TemporaryFolder folder;
  const std::filesystem::path pipe = folder.path() / "pipe";
  REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
  std::thread writer([&] { write_plain(pipe, idx_bytes({6}, six)); });
  CHECK_THAT(error_message<FileError>([&] { read_idx(pipe, 1); }), contains("its size is unknown"));
  writer.join();
}
