// Own sequences in HDF5 and npz files.

#include <fmt/format.h>
#include <hdf5.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "orthornn/core/error.hpp"
#include "orthornn/tasks/sequences_task.hpp"
#include "support/catch.hpp"
#include "support/error_message.hpp"
#include "support/npz_reader.hpp"
#include "support/npz_writer.hpp"
#include "support/temporary_folder.hpp"
#include "support/text_file.hpp"
#include "support/zip_writer.hpp"
#include "tasks/own_files.hpp"

using namespace orthornn;
using namespace orthornn::testing;

namespace fs = std::filesystem;

TEST_CASE("Arrays that cannot be read are refused by name", "[sequences]") {
  const TemporaryFolder folder;
  const fs::path file = folder / "own.npz";
  const auto message = [&](const std::vector<std::pair<std::string, std::string>>& members) {
    write_npz(file, members);
    return error_message<Error>([&] { SequencesTask({.data = file, .batch = 1}).load(); });
  };
  const std::string inputs = npy("<f4", "3, 2", raw_bytes(std::vector<float>(6)));
  CHECK_THAT(message({{"targets", inputs}}), contains("expected an array 'inputs' or an array 'symbols'"));
  CHECK_THAT(message({{"inputs", inputs}}), contains("no array 'targets'"));
  CHECK_THAT(message({{"inputs", inputs},
                      {"targets", npy("<i4", "3,", raw_bytes(std::vector<std::int32_t>{0, -1, 1}))}}),
             contains("own.npz: sequence 1: its target is -1"));
  CHECK_THAT(message({{"inputs", inputs},
                      {"targets", npy("<f4", "3,", raw_bytes(std::vector<float>{0, missing_number, 1}))}}),
             contains("own.npz: sequence 1: target 0 is missing"));
  CHECK_THAT(
      message({{"inputs", npy("<f4", "3, 2", raw_bytes(std::vector<float>{0, 0, 0, missing_number, 0, 0}))},
               {"targets", npy("<i4", "3,", raw_bytes(std::vector<std::int32_t>{0, 1, 1}))}}),
      contains("own.npz: sequence 1: input 0 of step 1 is missing"));
  CHECK_THAT(
      message({{"inputs", inputs}, {"lengths", npy("<i4", "1,", raw_bytes(std::vector<std::int32_t>{6}))}}),
      contains("'inputs' has shape [3, 2]") || contains("lengths are 6 steps in all, and there are 3"));
  CHECK_THAT(message({{"inputs", npy("<f4", "0, 2", "")}, {"targets", npy("<i4", "0,", "")}}),
             contains("at least one number"));
  CHECK_THAT(
      message({{"inputs", inputs}, {"targets", npy("<i4", "2,", raw_bytes(std::vector<std::int32_t>(2)))}}),
      contains("'targets' has shape [2]"));
  CHECK_THAT(message({{"inputs", npy("|O", "1,", "\x80\x04N.")}}), contains("pickle"));
  CHECK_THAT(message({{"inputs", npy("<f4", "1000000000000, 8", "")}}), contains("does not fit"));
  CHECK_THAT(message({{"inputs", npy("<f4", "99999999999999999999,", "")}}),
             contains("larger than any memory"));
  CHECK_THAT(message({{"inputs", npy("<f4", "1, 2", raw_bytes(std::vector<float>(2)), "True")}}),
             contains("Fortran order"));
  CHECK_THAT(message({{"inputs", npy("<c8", "1,", "01234567")}}), contains("its type is '<c8'"));
  CHECK_THAT(message({{"inputs", "\x93NUMPY"}}), contains("no array of NumPy"));
  write_text(file, "PK\x03\x04 and no more");
  CHECK_THAT(error_message<FileError>([&] { read_npz(file, {"inputs"}); }), contains("no .npz file"));
  CHECK_THAT(error_message<FileError>([&] { SequencesTask({.data = folder / "own.dat"}).load(); }),
             contains("no such file"));
  write_text(folder / "own.dat", "a");
  CHECK_THAT(error_message<FileError>([&] { SequencesTask({.data = folder / "own.dat"}).load(); }),
             contains(".h5, .hdf5, .npz, .csv or .txt"));
}

TEST_CASE("NumPy arrays are read in both byte orders", "[sequences]") {
  const TemporaryFolder folder;
  const auto array = [&](const std::string& text) {
    write_npz(folder / "own.npz", {{"own", text}});
    return std::move(read_npz(folder / "own.npz", {"own"}).at("own"));
  };
  const NumpyNumbers big = array(npy(">i2", "2,", std::string("\x01\x02\xff\xff", 4)));
  CHECK(big.is_integer);
  CHECK(big.integers(0) == 258);
  CHECK(big.integers(1) == -1);
  CHECK(array(npy(">f8", "1,", std::string("\x3f\xf0\0\0\0\0\0\0", 8))).reals(0) == 1);
  CHECK(array(npy("|b1", "2,", std::string("\x01\0", 2))).integers(0) == 1);
  CHECK(array(npy(">u8", "1,", std::string("\0\0\0\0\0\0\x01\x02", 8))).integers(0) == 258);
  CHECK_THAT(error_message<FileError>([&] { array(npy(">u8", "1,", std::string("\xff\0\0\0\0\0\0\0", 8))); }),
             contains("2^63 or more"));
}

TEST_CASE("Headers of NumPy arrays are read in every version and order, and refused for what they lack",
          "[sequences]") {
  const TemporaryFolder folder;
  const fs::path file = folder / "own.npz";
  const auto read = [&](const std::string& header, int version = 1) {
    write_npz(file, {{"own", npy_with_header(header, raw_bytes(std::vector<float>{1, 2, 3}), version)}});
    return read_npz(file, {"own"}).at("own").shape;
  };
  const std::string usual = "{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }\n";
  for (const int version : {1, 2, 3}) CHECK(read(usual, version) == Shape{3});
  CHECK(read(R"({"shape":(3, ), "descr":"<f4","fortran_order":False})") == Shape{3});
  CHECK(read("{'shape': (1, 3), 'descr': '<f4', 'fortran_order': False}") == Shape{1, 3});
  CHECK(read("{'descr': '<f4', 'fortran_order': False, 'shape': (1, 1, 1, 1, 1, 3), }").rank() == 6);
  const auto refusal = [&](const std::string& header, int version = 1) {
    return error_message<FileError>([&] { read(header, version); });
  };
  for (const int version : {0, 4}) {
    CHECK_THAT(refusal(usual, version),
               contains(fmt::format("version {} of NumPy's format; expected 1, 2 or 3", version)));
  }
  CHECK_THAT(refusal("{'descr': '<f4', 'fortran_order': False, }\n"), contains("has no 'shape'"));
  CHECK_THAT(refusal("{'descr': '<f4', 'shape': (3,), }\n"), contains("has no 'fortran_order'"));
  CHECK_THAT(refusal("{'fortran_order': False, 'shape': (3,), }\n"), contains("has no 'descr'"));
  CHECK_THAT(refusal("{'descr': '<f4', 'fortran_order': 0, 'shape': (3,), }\n"),
             contains("'fortran_order' is 0; expected False"));
  CHECK_THAT(refusal("{'descr': '<f4', 'fortran_order': Falsehood, 'shape': (3,), }\n"),
             contains("'fortran_order' is Falsehood; expected False"));
  CHECK_THAT(refusal("{'shape': '3', 'descr': '<f4', 'fortran_order': False}"),
             contains("its shape is '3'; expected whole numbers"));
  CHECK_THAT(refusal("{'descr': '<f4', 'fortran_order': False, 'shape': (3), }\n"),
             contains("(3), which is a number") && contains("(3,)"));
  for (const char* shape : {"3", "[3]"}) {
    CHECK_THAT(refusal(fmt::format("{{'descr': '<f4', 'fortran_order': False, 'shape': {}}}", shape)),
               contains(fmt::format("its shape is {}; expected whole numbers", shape)));
  }
  CHECK_THAT(refusal("{'descr': '<f4', 'fortran_order': False, 'shape': (1, 1, 1, 1, 1, 1, 3), }\n"),
             contains("more than 6 axes") && !contains("memory"));
  // A key is followed by a colon; this one is the name of a field.
  CHECK_THAT(refusal("{'descr': [('shape', '<f4')], 'fortran_order': False, 'shape': (3,), }\n"),
             contains("its type is not a plain one"));
}

TEST_CASE("An archive that says to inflate to far more than it is, is refused", "[sequences]") {
  const TemporaryFolder folder;
  const fs::path file = folder / "own.npz";
  const std::string zeros(std::size_t{1} << 24, '\0');
  const auto message = [&](std::uint64_t size) {
    write_npz(file, {{"inputs", npy("|u1", "4096, 4096", zeros)}});
    change_directory(file, [&](std::string& bytes, std::size_t place) {
      for (std::size_t i = 0; i < 4; ++i) bytes[place + 24 + i] = static_cast<char>(size >> (8 * i));
    });
    return error_message<FileError>([&] { SequencesTask({.data = file}).load(); });
  };
  CHECK_THAT(message(std::uint64_t{3} << 30), contains("(inputs)") && contains("zip bomb"));
  // What has another name is not inflated.
  write_npz(file, {{"other", npy("|u1", "1000000,", "damaged")}});
  CHECK_THAT(error_message<FileError>([&] { SequencesTask({.data = file}).load(); }),
             contains("expected an array 'inputs'"));
}

TEST_CASE("Arrays of held-out files are refused by file, sequence and number", "[sequences]") {
  const TemporaryFolder folder;
  const auto file = [&](const char* name, const std::vector<std::int32_t>& symbols) {
    write_npz(folder / name,
              {{"symbols", npy("<i4", fmt::format("{}, 2", symbols.size() / 2), raw_bytes(symbols))}});
    return folder / name;
  };
  SequencesOptions options{.data = file("training.npz", {0, 3, 3, 0, 0, 0}),
                           .validation_data = file("validation.npz", {3, 3}),
                           .test_data = file("test.npz", {0, 0, 3, 1}),
                           .goal = Goal::forecast,
                           .batch = 1};
  CHECK_THAT(error_message<Error>([&] { SequencesTask(options).load(); }),
             contains("test.npz: sequence 1: step 1 is symbol 1, which no training sequence has"));
  options.test_data = file("test.npz", {0, 0});
  SequencesTask(options).load();
  write_npz(folder / "test.npz", {{"inputs", npy("<f4", "1, 2", raw_bytes(std::vector<float>(2)))}});
  CHECK_THAT(error_message<Error>([&] { SequencesTask(options).load(); }),
             contains("test.npz: it has 1 numbers a step as its inputs; expected symbols"));
}

TEST_CASE("Compressed and big-endian HDF5 files of other programs are read", "[sequences]") {
  const TemporaryFolder folder;
  const TwentyPairs expected;
  const fs::path file = folder / "own.h5";
  const hid_t id = H5Fcreate(file.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
  const auto add = [&](const char* name, hid_t type, hid_t memory_type, std::vector<hsize_t> sizes,
                       const void* data) {
    const hid_t space = H5Screate_simple(static_cast<int>(sizes.size()), sizes.data(), nullptr);
    const hid_t properties = H5Pcreate(H5P_DATASET_CREATE);
    std::ranges::fill(sizes, 2);
    H5Pset_chunk(properties, static_cast<int>(sizes.size()), sizes.data());
    H5Pset_shuffle(properties);
    H5Pset_deflate(properties, 9);
    const hid_t dataset = H5Dcreate2(id, name, type, space, H5P_DEFAULT, properties, H5P_DEFAULT);
    REQUIRE(H5Dwrite(dataset, memory_type, H5S_ALL, H5S_ALL, H5P_DEFAULT, data) >= 0);
    H5Dclose(dataset);
    H5Pclose(properties);
    H5Sclose(space);
  };
  add("inputs", H5T_IEEE_F32BE, H5T_NATIVE_FLOAT, {20, 2}, expected.inputs.data());
  add("targets", H5T_STD_I16BE, H5T_NATIVE_INT64, {20}, expected.targets.data());
  H5Fclose(id);
  check_twenty(SequencesTask(options_for(file)));
}

TEST_CASE("Arrays without numbers take no memory for what they claim", "[sequences]") {
  const TemporaryFolder folder;
  write_npz(folder / "own.npz", {{"inputs", npy("<f4", "1000000000, 5, 0", "")}});
  CHECK_THAT(error_message<FileError>([&] { SequencesTask({.data = folder / "own.npz"}).load(); }),
             contains("at least one number"));
}
