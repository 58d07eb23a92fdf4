// HDF5 files that are damaged, cut short, or none.

#include <hdf5.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <initializer_list>
#include <string>

#include "io/hdf5_files.hpp"
#include "orthornn/io/hdf5.hpp"
#include "support/catch.hpp"
#include "support/child_process.hpp"
#include "support/errors.hpp"
#include "support/temporary_folder.hpp"
#include "support/text_file.hpp"
#include "test_paths.hpp"

namespace fs = std::filesystem;
using namespace orthornn;
using namespace orthornn::testing;

TEST_CASE("a file that HDF5 does not survive is refused", "[io][hdf5]") {
  // Found by tools/fuzz: a link-info message, its checksum right, whose addresses lie near 2^64. HDF5 1.10.8
  // dies of it in H5F__accum_read.
  const fs::path forged = fs::path(ORTHORNN_SOURCE_DIR) / "tests/io/data/forged_link_info.h5";
  CHECK_THAT(refusal([&] { Hdf5Reader(forged).read<float>("x"); }), contains("forged_link_info.h5"));
}

TEST_CASE("links in a circle do no harm", "[io][hdf5]") {
  // Found by tools/fuzz: the process that goes through a file first went round until its time was up.
  const TemporaryFolder folder;
  const fs::path file = folder / "file.h5";
  write_small_file(file);
  const hid_t id = H5Fopen(file.c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
  for (const char* name : {"/cell/itself", "/cell/again", "/cell/and_again"})
    REQUIRE(H5Lcreate_hard(id, "/cell", id, name, H5P_DEFAULT, H5P_DEFAULT) >= 0);
  H5Fclose(id);
  const Hdf5Reader reader(file);
  CHECK(equal(reader.read<double>("cell/again/itself/doubles"), example<double>(Shape{4, 5})));
}

TEST_CASE("a file that cannot be read is refused with its reason", "[io][hdf5]") {
  const TemporaryFolder folder;
  const fs::path file = folder / "file.h5";
  write_small_file(file);
  const std::string bytes = content(file);
  const auto reason = [](const fs::path& path) { return refusal([&] { const Hdf5Reader reader(path); }); };

  CHECK_THAT(reason(folder / "missing.h5"), contains("missing.h5") && contains("there is no such file"));
  CHECK_THAT(reason(file / "below"), contains("Not a directory"));
  CHECK_THAT(reason(folder.path()), contains("it is a folder"));
  CHECK_THAT(reason("/dev/null"), contains("it is not a regular file"));
  mkfifo((folder / "pipe").c_str(), 0600);
  CHECK_THAT(reason(folder / "pipe"), contains("it is not a regular file"));
  write_text(folder / "empty.h5", "");
  CHECK_THAT(reason(folder / "empty.h5"), contains("it is empty"));
  write_text(folder / "text.h5", "hello\n");
  CHECK_THAT(reason(folder / "text.h5"), contains("it is not an HDF5 file"));
  write_text(folder / "half.h5", bytes.substr(0, bytes.size() / 2));
  CHECK_THAT(reason(folder / "half.h5"), contains("it is truncated"));
  write_text(folder / "short.h5", bytes.substr(0, 20));
  CHECK_THAT(reason(folder / "short.h5"), contains("it is truncated"));
  std::string damaged = bytes;
  damaged[40] ^= 1;
  write_text(folder / "damaged.h5", damaged);
  CHECK_THAT(reason(folder / "damaged.h5"), contains("it is damaged") && contains("checksum"));

  fs::permissions(folder.path(), fs::perms(0755));
  fs::permissions(file, fs::perms(0000));
  const std::string message = message_from_child([&] {
    if (geteuid() == 0 && setuid(65534) != 0) throw Error("no other user here");
    const Hdf5Reader reader(file);
  });
  if (message == "no other user here") {
    WARN("permission not tested: this process is root and cannot become another user");
  } else {
    CHECK_THAT(message, contains("permission denied"));
  }
}

TEST_CASE("damaged data is told with the name of the dataset", "[io][hdf5]") {
  const TemporaryFolder folder;
  const fs::path file = folder / "file.h5";
  Tensor<double> values(Shape{1000});
  std::fill(values.begin(), values.end(), 1.5);
  Hdf5Writer writer;
  writer.dataset("cell/weights", values);
  writer.dataset("cell/bias", example<double>(Shape{10}));
  writer.commit(file);
  std::string bytes = content(file);
  const std::string pattern(reinterpret_cast<const char*>(values.data()), 100 * sizeof(double));
  const std::size_t place = bytes.find(pattern);
  REQUIRE(place != std::string::npos);
  bytes[place + 50] ^= 4;
  write_text(file, bytes);
  const Hdf5Reader reader(file);
  CHECK_THAT(refusal([&] { reader.read<double>("cell/weights"); }),
             contains("'cell/weights'") && contains("it is damaged"));
  CHECK(equal(reader.read<double>("cell/bias"), example<double>(Shape{10})));
}

TEST_CASE("a changed byte anywhere is an error or harmless", "[io][hdf5][long]") {
  const TemporaryFolder folder;
  const fs::path file = folder / "file.h5";
  write_small_file(file);
  const std::string bytes = content(file);
  const std::string expected = everything_in_small_file(file);
  int refused = 0;
  std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
  std::size_t tried = 0;
  for (std::size_t i = 0; i < bytes.size(); i += 37, ++tried) {  // each try makes processes, which takes time
    const char change = static_cast<char>(i % 2 == 0 ? 0xff : 1 << (i / 2 % 8));
    const auto set = [&](char byte) { stream.seekp(static_cast<std::streamoff>(i)).put(byte).flush(); };
    set(static_cast<char>(bytes[i] ^ change));
    try {
      const bool same = everything_in_small_file(file) == expected;
      CAPTURE(i);
      if (!same) FAIL("other content");
    } catch (const FileError&) {
      ++refused;
    }
    set(bytes[i]);
  }
  CHECK(everything_in_small_file(file) == expected);
  CAPTURE(refused, tried);
  CHECK(refused > static_cast<int>(tried) / 2);
}

TEST_CASE("a block that was zeroed together with its checksum is told", "[io][hdf5]") {
  const TemporaryFolder folder;
  const fs::path file = folder / "file.h5";
  const Tensor<float> values = example<float>(Shape{40});
  Hdf5Writer writer;
  writer.dataset("weights", values.view());
  writer.commit(file);
  std::string bytes = content(file);
  const std::string numbers(reinterpret_cast<const char*>(values.data()), sizeof(float) * 40);
  const std::size_t at = bytes.find(numbers);
  REQUIRE(at != std::string::npos);
  std::fill_n(bytes.begin() + static_cast<std::ptrdiff_t>(at), numbers.size() + 4,
              '\0');  // Fletcher32 of zeros is 0
  write_text(file, bytes);
  const Hdf5Reader reader(file);
  CHECK_THAT(refusal([&] { reader.read<float>("weights"); }), contains("'weights'") && contains("damaged"));
}

TEST_CASE("a file cut short anywhere is an error", "[io][hdf5][long]") {
  const TemporaryFolder folder;
  const fs::path file = folder / "file.h5";
  write_small_file(file);
  for (std::uintmax_t size = fs::file_size(file); size-- > 0;) {
    if (size > 100 && size % 37 != 0) continue;
    fs::resize_file(file, size);
    CAPTURE(size);
    const std::string reason = refusal([&] { everything_in_small_file(file); });
    const bool right = reason.find(size == 0  ? "empty"
                                   : size < 8 ? "not an HDF5 file"
                                              : "truncated") != std::string::npos;
    if (!right) FAIL(reason);
  }
}
