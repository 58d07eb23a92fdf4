// Files of npz that the library writes: its own reader finds the numbers again.

#include "io/npz_file.hpp"

#include <cstdlib>
#include <initializer_list>
#include <limits>

#include "orthornn/core/error.hpp"
#include "support/catch.hpp"
#include "support/child_process.hpp"
#include "support/error_message.hpp"
#include "support/errors.hpp"
#include "support/npz_reader.hpp"
#include "support/python.hpp"
#include "support/random_tensor.hpp"
#include "support/temporary_folder.hpp"
#include "support/text_file.hpp"

namespace fs = std::filesystem;
using namespace orthornn;
using namespace orthornn::testing;

namespace {

void write_all_kinds(const fs::path& file) {
  NpzWriter writer("a format");
  writer.dataset("reals/x", normal_tensor<float>({2, 3, 4}, 1));
  writer.dataset("wide", normal_tensor<double>({5}, 2));
  Tensor<std::int64_t> large(Shape{1, 2});
  large(0, 0) = std::numeric_limits<std::int64_t>::min();
  writer.dataset("large", large);
  Tensor<std::int32_t> small(Shape{3});
  small(1) = -7;
  writer.dataset("small", small);
  writer.dataset("empty", Tensor<float>(Shape{0, 3}));
  const double scalar = 2.5;
  writer.dataset("scalar", TensorView<const double>(&scalar, Shape{}));
  writer.dataset("texts", {"", "up", "schön"});
  writer.commit(file);
}

}  // namespace

TEST_CASE("arrays of an npz file are read as they were written", "[npz]") {
  const TemporaryFolder folder;
  const fs::path file = folder / "all.npz";
  write_all_kinds(file);
  const auto arrays = read_npz(file, {"reals/x", "wide", "large", "small", "empty", "scalar", "none"});
  REQUIRE(arrays.size() == 6);
  const Tensor<float> x = normal_tensor<float>({2, 3, 4}, 1);
  CHECK(arrays.at("reals/x").shape == x.shape());
  CHECK(equal(cast<float>(arrays.at("reals/x").reals), x));
  CHECK(equal(arrays.at("wide").reals, normal_tensor<double>({5}, 2)));
  CHECK(arrays.at("large").integers(0, 0) == std::numeric_limits<std::int64_t>::min());
  CHECK(arrays.at("small").is_integer);
  CHECK(arrays.at("small").integers(1) == -7);
  CHECK(arrays.at("empty").shape == Shape{0, 3});
  CHECK(arrays.at("scalar").shape == Shape{});
  CHECK(arrays.at("scalar").reals() == 2.5);
  CHECK(npz_format(file) == "a format");
  CHECK_THAT(error_message<FileError>([&] { read_npz(file, {"texts"}); }), contains("its type is '|S6'"));
  CHECK_THROWS_AS(npz_format(folder / "none.npz"), FileError);
}

TEST_CASE("an npz file has the same bytes at every time and place", "[npz]") {
  const TemporaryFolder folder;
  write_all_kinds(folder / "first.npz");
  const char* before = std::getenv("TZ");
  const std::string zone = before == nullptr ? "" : before;
  setenv("TZ", "Asia/Tokyo", 1);
  write_all_kinds(folder / "second.npz");
  before == nullptr ? unsetenv("TZ") : setenv("TZ", zone.c_str(), 1);
  const std::string bytes = content(folder / "first.npz");
  CHECK((bytes == content(folder / "second.npz")));
  // The header of the first member: midnight of the first of January 1980, and no compression.
  CHECK(bytes.substr(8, 2) == std::string("\0\0", 2));
  CHECK(bytes.substr(10, 4) == std::string("\0\0\x21\0", 4));
}

TEST_CASE("an npz file that cannot be written leaves the old one", "[npz]") {
  const TemporaryFolder folder;
  write_text(folder / "old.npz", "old");
  fs::create_directory(folder / ".old.npz.tmp");
  CHECK_THROWS_AS(write_all_kinds(folder / "old.npz"), FileError);
  CHECK(content(folder / "old.npz") == "old");
}

TEST_CASE("numpy reads every array of an npz file", "[npz]") {
  const auto found = python();
  if (!found) return;
  const TemporaryFolder folder;
  write_all_kinds(folder / "all.npz");
  const ShellOutput output = shell(
      fmt::format("cd '{}' && {} -c \"\nimport numpy as np\n"
                  "file = np.load('all.npz')\n"
                  "assert file.files == ['reals/x', 'wide', 'large', 'small', 'empty', 'scalar', 'texts']\n"
                  "assert file['reals/x'].shape == (2, 3, 4) and file['reals/x'].dtype == np.float32\n"
                  "assert file['wide'].shape == (5,) and file['wide'].dtype == np.float64\n"
                  "assert file['large'].tolist() == [[-2**63, 0]] and file['small'].tolist() == [0, -7, 0]\n"
                  "assert file['empty'].shape == (0, 3) and file['scalar'] == 2.5\n"
                  "assert [t.decode() for t in file['texts']] == ['', 'up', 'schön']\n\"",
                  folder.path().string(), *found),
      folder / "text");
  CAPTURE(output.text);
  CHECK(output.status == 0);
}
