#include "orthornn/io/hdf5.hpp"

#include <fmt/format.h>
#include <hdf5.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <fstream>
#include <functional>
#include <initializer_list>
#include <limits>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "support/catch.hpp"
#include "support/child_process.hpp"
#include "support/hdf5_edit.hpp"
#include "support/temporary_folder.hpp"
#include "support/text_file.hpp"
#include "test_paths.hpp"

namespace fs = std::filesystem;
using namespace orthornn;
using orthornn::testing::contains;
using orthornn::testing::content;
using orthornn::testing::Hdf5Edit;
using orthornn::testing::kill_at_call;
using orthornn::testing::message_from_child;
using orthornn::testing::run_program;
using orthornn::testing::TemporaryFolder;
using orthornn::testing::write_text;

namespace {

const std::vector<Shape> every_rank{Shape{},
                                    Shape{5},
                                    Shape{1},
                                    Shape{3, 4},
                                    Shape{2, 3, 4},
                                    Shape{0},
                                    Shape{3, 0, 2},
                                    Shape{7, 1, 1},
                                    Shape{2, 3, 2, 5},
                                    Shape{1, 1, 1, 0},
                                    Shape{1001},
                                    Shape{37, 41},
                                    Shape{2, 1, 3, 2, 2, 2}};

// Values with every byte in use, signs, extremes.
template <class T>
Tensor<T> example(const Shape& shape) {
  Tensor<T> values(shape);
  for (Index i = 0; i < values.size(); ++i) {
    const auto mixed = static_cast<std::int64_t>(static_cast<std::uint64_t>(i + 1) * 0x9E3779B97F4A7C15);
    if constexpr (std::is_floating_point_v<T>) {
      values.data()[i] = static_cast<T>(mixed) / T(3e18);
    } else {
      values.data()[i] = static_cast<T>(mixed);
    }
  }
  if (values.size() > 3) {
    values.data()[1] = std::numeric_limits<T>::lowest();
    values.data()[2] = std::numeric_limits<T>::max();
    if constexpr (std::is_floating_point_v<T>) values.data()[3] = -std::numeric_limits<T>::infinity();
  }
  return values;
}

template <class T>
bool equal(const Tensor<T>& a, const Tensor<T>& b) {
  return a.shape() == b.shape() && std::equal(a.begin(), a.end(), b.begin());
}

// The message of the FileError that `call` throws; anything else it throws goes on.
template <class Call>
std::string refusal(const Call& call) {
  try {
    call();
  } catch (const FileError& error) {
    return error.what();
  }
  return "not refused";
}

// A file with all that we write: groups (one with more members than HDF5 likes in an object header), types,
// datasets in one piece and in several, attributes.
void write_small_file(const fs::path& file) {
  Hdf5Writer writer(64);
  writer.dataset("floats", example<float>(Shape{5}));
  writer.dataset("cell/doubles", example<double>(Shape{4, 5}));
  writer.dataset("cell/integers", example<std::int64_t>(Shape{}));
  writer.dataset("cell/none", example<double>(Shape{0, 3}));
  for (int i = 0; i < 10; ++i) {
    writer.dataset("many/bytes_" + std::to_string(i), example<std::uint8_t>(Shape{3}));
    writer.attribute("many", "attribute_" + std::to_string(i), i);
  }
  writer.attribute("/", "config", "{\"cell\": \"cwy\"}");
  writer.attribute("cell/doubles", "rate", 0.1);
  writer.commit(file);
}

// All that is in that file, as text.
std::string everything_in_small_file(const fs::path& file) {
  std::ostringstream text;
  const auto add = [&](const auto& values) {
    text << to_string(values.shape());
    for (const auto& value : values) text << +value << ' ';
  };
  const Hdf5Reader reader(file);
  for (const char* group : {"/", "cell", "many"}) {
    for (const std::string& name : reader.names(group)) text << name << '\n';
  }
  add(reader.read<float>("floats"));
  add(reader.read<double>("cell/doubles"));
  add(reader.read<std::int64_t>("cell/integers"));
  add(reader.read<double>("cell/none"));
  for (int i = 0; i < 10; ++i) {
    add(reader.read<std::uint8_t>("many/bytes_" + std::to_string(i)));
    text << reader.int_attribute("many", "attribute_" + std::to_string(i));
  }
  text << reader.string_attribute("/", "config") << reader.double_attribute("cell/doubles", "rate");
  return text.str();
}

// What other programs write.
class ForeignFile {
 public:
  explicit ForeignFile(const fs::path& file)
      : file_(H5Fcreate(file.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT)) {}
  ~ForeignFile() { H5Fclose(file_); }
  void dataset(const char* name, hid_t file_type, hid_t memory_type, std::vector<hsize_t> sizes,
               const void* data) {
    const hid_t space = H5Screate_simple(static_cast<int>(sizes.size()), sizes.data(), nullptr);
    const hid_t properties = H5Pcreate(H5P_DATASET_CREATE);
    if (data == nullptr) {  // sparse, so that any size can be claimed
      const std::vector<hsize_t> chunk(sizes.size(), 1);
      H5Pset_chunk(properties, static_cast<int>(chunk.size()), chunk.data());
    }
    const hid_t dataset = H5Dcreate2(file_, name, file_type, space, H5P_DEFAULT, properties, H5P_DEFAULT);
    H5Pclose(properties);
    if (data != nullptr) H5Dwrite(dataset, memory_type, H5S_ALL, H5S_ALL, H5P_DEFAULT, data);
    H5Dclose(dataset);
    H5Sclose(space);
  }
  void null_dataset(const char* name) {
    const hid_t space = H5Screate(H5S_NULL);
    H5Dclose(H5Dcreate2(file_, name, H5T_NATIVE_INT, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
    H5Sclose(space);
  }
  void attribute(const char* name, hid_t type, std::vector<hsize_t> sizes, const void* data) {
    const hid_t space = sizes.empty()
                            ? H5Screate(H5S_SCALAR)
                            : H5Screate_simple(static_cast<int>(sizes.size()), sizes.data(), nullptr);
    const hid_t attribute = H5Acreate2(file_, name, type, space, H5P_DEFAULT, H5P_DEFAULT);
    H5Awrite(attribute, type, data);
    H5Aclose(attribute);
    H5Sclose(space);
  }

 private:
  hid_t file_;
};

hid_t text_type(std::size_t size, H5T_str_t padding) {
  const hid_t type = H5Tcopy(H5T_C_S1);
  H5Tset_size(type, size);
  H5Tset_strpad(type, padding);
  return type;
}

}  // namespace

TEMPLATE_TEST_CASE("tensors of every type and rank come back as they were", "[io][hdf5]", float, double,
                   std::int32_t, std::int64_t, std::uint8_t) {
  const TemporaryFolder folder;
  const Index chunk_bytes = GENERATE(Index{1} << 30, Index{100}, Index{8});
  Hdf5Writer writer(chunk_bytes);
  for (const Shape& shape : every_rank) writer.dataset("a/b" + to_string(shape), example<TestType>(shape));
  writer.commit(folder / "file.h5");
  const Hdf5Reader reader(folder / "file.h5");
  for (const Shape& shape : every_rank) {
    const std::string name = "a/b" + to_string(shape);
    CAPTURE(name, chunk_bytes);
    CHECK(reader.has(name));
    CHECK(reader.shape(name) == shape);
    CHECK(reader.is_integer(name) == std::is_integral_v<TestType>);
    CHECK(equal(reader.read<TestType>(name), example<TestType>(shape)));
    Tensor<TestType> there(shape);
    reader.read_into(name, there.view());
    CHECK(equal(there, example<TestType>(shape)));
  }
}

TEST_CASE("groups and their members can be listed", "[io][hdf5]") {
  const TemporaryFolder folder;
  Hdf5Writer writer;
  writer.group("empty/inner");
  writer.group("/empty");
  writer.dataset("/z", example<float>(Shape{2}));
  for (const char* name : {"c", "a", "b"})
    writer.dataset(std::string("group/") + name, example<float>(Shape{2}));
  writer.commit(folder / "file.h5");
  const Hdf5Reader reader(folder / "file.h5");
  CHECK(reader.file() == folder / "file.h5");
  CHECK(reader.names("/") == std::vector<std::string>{"empty", "group", "z"});
  CHECK(reader.names("group") == std::vector<std::string>{"a", "b", "c"});
  CHECK(reader.names("/empty/inner").empty());
  CHECK(reader.has("/"));
  CHECK(reader.has("group"));
  CHECK(reader.has("/group/a"));
  CHECK_FALSE(reader.has("group/d"));
  CHECK_FALSE(reader.has("missing/a"));
  CHECK_FALSE(reader.has("group/a/below_a_dataset"));
  CHECK_THAT(refusal([&] { reader.names("z"); }), contains("'z'") && contains("it is not a group"));
  CHECK_THAT(refusal([&] { reader.names("y"); }), contains("'y'") && contains("no such object"));
  CHECK_THAT(refusal([&] { reader.shape("group"); }), contains("'group'") && contains("it is not a dataset"));
}

TEST_CASE("attributes come back as they were", "[io][hdf5]") {
  const TemporaryFolder folder;
  const std::string longest(60000, 'x');
  Hdf5Writer writer;
  writer.dataset("group/data", example<float>(Shape{2}));
  writer.attribute("/", "empty", "");
  writer.attribute("/", "utf8", "Größe \u221e");
  writer.attribute("/", "spaces", " a  ");
  writer.attribute("group", "long", longest);
  writer.attribute("group", "longer", longest);
  writer.attribute("group/data", "int", 3);
  writer.attribute("group/data", "least", std::numeric_limits<std::int64_t>::min());
  writer.attribute("group/data", "size", std::size_t{7});
  writer.attribute("group/data", "flag", true);
  writer.attribute("group/data", "double", 0.1);
  for (int i = 0; i < 100; ++i) writer.attribute("group/data", std::to_string(i), i);
  writer.commit(folder / "file.h5");
  const Hdf5Reader reader(folder / "file.h5");
  CHECK(reader.string_attribute("/", "empty") == "");
  CHECK(reader.string_attribute("/", "utf8") == "Größe \u221e");
  CHECK(reader.string_attribute("/", "spaces") == " a  ");
  CHECK(reader.string_attribute("group", "longer") == longest);
  CHECK(reader.int_attribute("group/data", "int") == 3);
  CHECK(reader.int_attribute("group/data", "least") == std::numeric_limits<std::int64_t>::min());
  CHECK(reader.int_attribute("group/data", "size") == 7);
  CHECK(reader.int_attribute("group/data", "flag") == 1);
  CHECK(reader.int_attribute("group/data", "99") == 99);
  CHECK(reader.double_attribute("group/data", "double") == 0.1);
  CHECK(reader.has_attribute("/", "utf8"));
  CHECK_FALSE(reader.has_attribute("/", "int"));

  CHECK_THAT(refusal([&] { reader.has_attribute("nothing", "int"); }), contains("'nothing'"));
  CHECK_THAT(refusal([&] { reader.int_attribute("group/data", "missing"); }),
             contains("'missing'") && contains("'group/data'") && contains("no such attribute"));
  CHECK_THAT(refusal([&] { reader.int_attribute("group/data", "double"); }),
             contains("'double' of 'group/data'") &&
                 contains("expected integers, found 64-bit floating-point numbers"));
  CHECK_THAT(refusal([&] { reader.double_attribute("group/data", "int"); }),
             contains("found 64-bit integers"));
  CHECK_THAT(refusal([&] { reader.string_attribute("group/data", "int"); }), contains("expected text"));
  CHECK_THAT(refusal([&] { reader.int_attribute("/", "utf8"); }), contains("found text"));
}

TEST_CASE("texts lie in the file with zeros behind the shorter ones", "[io][hdf5]") {
  const TemporaryFolder folder;
  const fs::path file = folder / "texts.h5";
  Hdf5Writer writer;
  writer.dataset("names/of_classes", {"up", "schön", ""});
  writer.dataset("none", std::vector<std::string>());
  writer.commit(file);
  CHECK(content(file).find(std::string("up\0\0\0\0schön\0\0\0\0\0\0", 18)) != std::string::npos);
  const Hdf5Reader reader(file);
  CHECK(reader.names("names") == std::vector<std::string>{"of_classes"});
  CHECK(reader.has("none"));
  CHECK_THAT(refusal([&] { reader.read<float>("names/of_classes"); }), contains("found text"));
}

TEST_CASE("a writer refuses what it cannot keep", "[io][hdf5]") {
  const TemporaryFolder folder;
  Hdf5Writer writer;
  writer.dataset("data", example<float>(Shape{2}));
  writer.attribute("data", "name", 1);
  CHECK_THROWS_AS(writer.attribute("data", "text", std::string(60001, 'x')), ValueError);
  CHECK_THROWS_AS(writer.attribute("data", "text", std::string("a\0b", 3)), ValueError);
  CHECK_THROWS_AS(writer.attribute("data", "large", std::numeric_limits<std::uint64_t>::max()), ValueError);
  CHECK_THROWS_WITH(writer.attribute("data", "name", 2), contains("'name'") && contains("already exists"));
  CHECK_THROWS_AS(writer.attribute("missing", "name", 2), FileError);
  CHECK_THROWS_WITH(writer.dataset("data", example<float>(Shape{2})), contains("'data'"));
  CHECK_THROWS_AS(writer.dataset("data/below", example<float>(Shape{2})), FileError);
  CHECK_THROWS_AS(writer.group("data/below/below"), FileError);
  CHECK_THROWS_AS(Hdf5Writer(0), ValueError);
  CHECK_THROWS_AS(Hdf5Writer(Index{1} << 32), ValueError);
  CHECK_THROWS_AS(writer.commit(folder / "missing/file.h5"), FileError);
  CHECK_THROWS_AS(writer.group("late"), ValueError);
  writer.commit(folder / "file.h5");  // what was refused did no harm, and another place is no trouble
  CHECK(Hdf5Reader(folder / "file.h5").int_attribute("data", "name") == 1);
}

TEST_CASE("a group of very many members is read like any other", "[io][hdf5]") {
  const TemporaryFolder folder;
  Hdf5Writer writer;
  for (int i = 0; i < 500; ++i) writer.dataset("group/" + std::to_string(i), example<float>(Shape{2}));
  writer.commit(folder / "file.h5");
  const Hdf5Reader reader(folder / "file.h5");
  CHECK(reader.names("group").size() == 500);
  CHECK(equal(reader.read<float>("group/499"), example<float>(Shape{2})));
}

TEST_CASE("equal content gives equal bytes", "[io][hdf5][long]") {
  const TemporaryFolder folder;
  write_small_file(folder / "first.h5");
  sleep(1);  // a timestamp would show
  write_small_file(folder / "second.h5");
  CHECK(content(folder / "first.h5") == content(folder / "second.h5"));
}

TEST_CASE("numbers are converted where nothing is lost but rounding", "[io][hdf5]") {
  const TemporaryFolder folder;
  Hdf5Writer writer;
  Tensor<double> tenth(Shape{2});
  tenth(0) = 0.1;
  tenth(1) = -1e300;
  Tensor<std::int64_t> large(Shape{1}), small(Shape{1}), negative(Shape{1});
  large(0) = std::int64_t{1} << 31;
  small(0) = 255;
  negative(0) = -1;
  writer.dataset("tenth", tenth);
  writer.dataset("large", large);
  writer.dataset("small", small);
  writer.dataset("negative", negative);
  writer.commit(folder / "file.h5");
  const Hdf5Reader reader(folder / "file.h5");
  CHECK(reader.read<float>("tenth")(0) == 0.1f);
  CHECK(reader.read<float>("tenth")(1) == -std::numeric_limits<float>::infinity());
  CHECK(reader.read<std::int32_t>("small")(0) == 255);
  CHECK(reader.read<std::uint8_t>("small")(0) == 255);
  CHECK(reader.read<std::int32_t>("negative")(0) == -1);
  CHECK_THAT(refusal([&] { reader.read<std::int32_t>("large"); }),
             contains("'large'") && contains("do not fit in 32 bits"));
  CHECK_THAT(refusal([&] { reader.read<std::uint8_t>("negative"); }), contains("do not fit in 8 bits"));
  CHECK_THAT(refusal([&] { reader.read<std::int64_t>("tenth"); }),
             contains("'tenth'") && contains("expected integers, found floating-point numbers"));
  CHECK_THAT(refusal([&] { reader.read<double>("small"); }), contains("expected floating-point numbers"));
}

TEST_CASE("reading into memory of another shape names both shapes", "[io][hdf5]") {
  const TemporaryFolder folder;
  Hdf5Writer writer;
  writer.dataset("bias", example<float>(Shape{3, 4}));
  writer.commit(folder / "file.h5");
  Tensor<float> there(Shape{4, 3});
  CHECK_THROWS_AS(Hdf5Reader(folder / "file.h5").read_into("bias", there.view()), ShapeError);
  CHECK_THROWS_WITH(Hdf5Reader(folder / "file.h5").read_into("bias", there.view()),
                    contains("'bias'") && contains("[3, 4]") && contains("[4, 3]"));
}

TEST_CASE("a window on a tensor is written as it is seen", "[io][hdf5]") {
  const TemporaryFolder folder;
  const Tensor<double> values = example<double>(Shape{5, 3});
  Hdf5Writer writer;
  writer.dataset("rows", values.view().slice(1, 2));
  writer.commit(folder / "file.h5");
  const Tensor<double> rows = Hdf5Reader(folder / "file.h5").read<double>("rows");
  CHECK(rows.shape() == Shape{2, 3});
  CHECK(std::equal(rows.begin(), rows.end(), values.begin() + 3));
}

TEST_CASE("files of other programs are read", "[io][hdf5]") {
  const TemporaryFolder folder;
  const fs::path file = folder / "file.h5";
  {
    ForeignFile foreign(file);
    const std::int16_t shorts[] = {-1, 2, 3};
    const std::uint64_t wide[] = {std::numeric_limits<std::uint64_t>::max()};
    const float one = 1;
    foreign.dataset("shorts", H5T_STD_I16BE, H5T_NATIVE_INT16, {3}, shorts);
    foreign.dataset("wide", H5T_STD_U64LE, H5T_NATIVE_UINT64, {1}, wide);
    foreign.dataset("seven", H5T_NATIVE_FLOAT, H5T_NATIVE_FLOAT, {1, 1, 1, 1, 1, 1, 1}, &one);
    foreign.dataset("text", text_type(4, H5T_STR_NULLTERM), 0, {1}, nullptr);
    foreign.dataset("large", H5T_NATIVE_DOUBLE, 0, {hsize_t{1} << 54}, nullptr);
    foreign.dataset("vast", H5T_NATIVE_DOUBLE, 0, {hsize_t{1} << 31, hsize_t{1} << 31}, nullptr);
    foreign.null_dataset("null");
    const char* text = "as h5py writes it";
    foreign.attribute("variable", text_type(H5T_VARIABLE, H5T_STR_NULLTERM), {}, &text);
    foreign.attribute("long", text_type(60001, H5T_STR_NULLPAD), {}, std::string(60001, 'a').data());
    foreign.attribute("nullterm", text_type(6, H5T_STR_NULLTERM), {}, "ab\0xyz");
    foreign.attribute("nullpad", text_type(6, H5T_STR_NULLPAD), {}, "ab\0\0\0\0");
    foreign.attribute("spacepad", text_type(6, H5T_STR_SPACEPAD), {}, "ab    ");
    foreign.attribute("wide", H5T_STD_U64LE, {}, wide);
    foreign.attribute("shorts", H5T_NATIVE_INT16, {3}, shorts);
    foreign.attribute("short", H5T_NATIVE_INT16, {1}, shorts);
    foreign.attribute("float", H5T_NATIVE_FLOAT, {}, &one);
  }
  const Hdf5Reader reader(file);
  CHECK(reader.is_integer("shorts"));
  CHECK(reader.read<std::int32_t>("shorts")(0) == -1);
  CHECK_THAT(refusal([&] { reader.read<std::int64_t>("wide"); }), contains("do not fit in 64 bits"));
  CHECK_THAT(refusal([&] { reader.shape("seven"); }), contains("'seven'") && contains("7 dimensions"));
  CHECK_THAT(refusal([&] { reader.is_integer("text"); }),
             contains("expected integers") && contains("found text"));
  CHECK_THAT(refusal([&] { reader.read<float>("text"); }), contains("found text"));
  CHECK_THAT(refusal([&] { reader.shape("null"); }), contains("'null'"));
  CHECK_THAT(refusal([&] { reader.shape("vast"); }),
             contains("'vast'") && contains("larger than any memory"));
  CHECK_THAT(refusal([&] { reader.shape("large"); }),
             contains("'large'") && contains("no number of it was ever written"));
  CHECK_THAT(refusal([&] { reader.string_attribute("/", "variable"); }), contains("text of variable length"));
  CHECK_THAT(refusal([&] { reader.string_attribute("/", "long"); }),
             contains("at most 60000 bytes, found 60001"));
  CHECK(reader.string_attribute("/", "nullterm") == "ab");
  CHECK(reader.string_attribute("/", "nullpad") == "ab");
  CHECK(reader.string_attribute("/", "spacepad") == "ab");
  CHECK(reader.int_attribute("/", "short") == -1);
  CHECK(reader.double_attribute("/", "float") == 1);
  CHECK_THAT(refusal([&] { reader.int_attribute("/", "wide"); }), contains("does not fit"));
  CHECK_THAT(refusal([&] { reader.int_attribute("/", "shorts"); }), contains("expected one value, found 3"));
}

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

TEST_CASE("a chunk that is stored short is refused", "[io][hdf5]") {
  // HDF5 1.10 copies a whole chunk out of the few bytes that it has read; the long chunk makes up for the
  // sum.
  const TemporaryFolder folder;
  const fs::path file = folder / "file.h5";
  for (const bool checksums : {false, true}) {
    CAPTURE(checksums);
    const hid_t id = H5Fcreate(file.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    const hsize_t size = 2048, chunk = 1024, first = 0, second = 1024;
    const hid_t space = H5Screate_simple(1, &size, nullptr), properties = H5Pcreate(H5P_DATASET_CREATE);
    H5Pset_chunk(properties, 1, &chunk);
    if (checksums) H5Pset_fletcher32(properties);
    const hid_t dataset = H5Dcreate2(id, "x", H5T_IEEE_F32LE, space, H5P_DEFAULT, properties, H5P_DEFAULT);
    const std::vector<float> numbers(4096);
    REQUIRE(H5Dwrite_chunk(dataset, H5P_DEFAULT, 0, &first, 4, numbers.data()) >= 0);
    REQUIRE(H5Dwrite_chunk(dataset, H5P_DEFAULT, 0, &second, 8200, numbers.data()) >= 0);
    H5Dclose(dataset);
    H5Pclose(properties);
    H5Sclose(space);
    H5Fclose(id);
    const Hdf5Reader reader(file);
    CHECK_THAT(refusal([&] { reader.read<float>("x"); }),
               contains("'x'") && contains("a chunk of it has 4 bytes in the file; expected " +
                                           std::to_string(checksums ? 4100 : 4096)));
  }
}

namespace {

// A file with one dataset "x" [5, 7] in chunks of [2, 3], through these filters. `write` may write chunks as
// they are stored.
void write_filtered(const fs::path& file, hid_t type, const std::vector<H5Z_filter_t>& filters,
                    const std::function<void(hid_t dataset)>& write) {
  const hid_t id = H5Fcreate(file.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
  const hsize_t sizes[] = {5, 7}, chunk[] = {2, 3};
  const hid_t space = H5Screate_simple(2, sizes, nullptr), properties = H5Pcreate(H5P_DATASET_CREATE);
  H5Pset_chunk(properties, 2, chunk);
  for (const H5Z_filter_t filter : filters) {
    if (filter == H5Z_FILTER_SHUFFLE) H5Pset_shuffle(properties);
    if (filter == H5Z_FILTER_DEFLATE) H5Pset_deflate(properties, 6);
    if (filter == H5Z_FILTER_FLETCHER32) H5Pset_fletcher32(properties);
  }
  const hid_t dataset = H5Dcreate2(id, "x", type, space, H5P_DEFAULT, properties, H5P_DEFAULT);
  REQUIRE(dataset >= 0);
  write(dataset);
  H5Dclose(dataset);
  H5Pclose(properties);
  H5Sclose(space);
  H5Fclose(id);
}

// The bytes as HDF5's deflate filter stores them.
std::vector<unsigned char> deflated(const std::vector<unsigned char>& bytes) {
  uLongf length = compressBound(bytes.size());
  std::vector<unsigned char> result(length);
  REQUIRE(compress(result.data(), &length, bytes.data(), bytes.size()) == Z_OK);
  result.resize(length);
  return result;
}

}  // namespace

TEST_CASE("compressed datasets are read where that is allowed, and refused where not", "[io][hdf5]") {
  const TemporaryFolder folder;
  const fs::path file = folder / "file.h5";
  const Tensor<double> doubles = example<double>(Shape{5, 7});
  const Tensor<std::int32_t> integers = example<std::int32_t>(Shape{5, 7});
  for (const std::vector<H5Z_filter_t>& filters :
       {std::vector{H5Z_FILTER_DEFLATE}, {H5Z_FILTER_SHUFFLE, H5Z_FILTER_DEFLATE}, {H5Z_FILTER_SHUFFLE}}) {
    CAPTURE(filters);
    for (const hid_t type : {H5T_IEEE_F64LE, H5T_IEEE_F64BE}) {
      write_filtered(file, type, filters, [&](hid_t dataset) {
        H5Dwrite(dataset, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, doubles.data());
      });
      CHECK(equal(Hdf5Reader(file, Compression::allowed).read<double>("x"), doubles));
    }
    write_filtered(file, H5T_STD_I32BE, filters, [&](hid_t dataset) {
      H5Dwrite(dataset, H5T_NATIVE_INT32, H5S_ALL, H5S_ALL, H5P_DEFAULT, integers.data());
    });
    const Hdf5Reader reader(file, Compression::allowed);
    CHECK(equal(reader.read<std::int32_t>("x"), integers));
    CHECK(reader.read<std::int64_t>("x")(4, 6) == integers(4, 6));
    CHECK_THAT(refusal([&] { reader.read<std::uint8_t>("x"); }), contains("do not fit in 8 bits"));
    CHECK_THAT(refusal([&] { Hdf5Reader(file).read<std::int32_t>("x"); }),
               contains(fmt::format("HDF5's filter {}", filters[0])) && contains("without compression"));
  }
  write_filtered(file, H5T_STD_I32LE, {H5Z_FILTER_DEFLATE, H5Z_FILTER_FLETCHER32}, [&](hid_t dataset) {
    H5Dwrite(dataset, H5T_NATIVE_INT32, H5S_ALL, H5S_ALL, H5P_DEFAULT, integers.data());
  });
  CHECK_THAT(refusal([&] { Hdf5Reader(file, Compression::allowed).read<std::int32_t>("x"); }),
             contains("filters 1, 3;") && contains("with gzip alone"));
}

TEST_CASE("compressed chunks that are not what the dataset declares are refused", "[io][hdf5]") {
  const TemporaryFolder folder;
  const fs::path file = folder / "file.h5";
  const auto message = [&](const std::vector<unsigned char>& stored, unsigned left_out = 0) {
    write_filtered(file, H5T_STD_U8LE, {H5Z_FILTER_DEFLATE}, [&](hid_t dataset) {
      for (hsize_t i = 0; i < 5; i += 2) {
        for (hsize_t j = 0; j < 7; j += 3) {
          const hsize_t at[] = {i, j};
          REQUIRE(H5Dwrite_chunk(dataset, H5P_DEFAULT, left_out, at, stored.size(), stored.data()) >= 0);
        }
      }
    });
    return refusal([&] { Hdf5Reader(file, Compression::allowed).read<std::uint8_t>("x"); });
  };
  const std::vector<unsigned char> six = {1, 2, 3, 4, 5, 6};
  CHECK(message(deflated(six)) == "not refused");
  // A filter that made a chunk no smaller was left out for it.
  CHECK(message(six, 1) == "not refused");
  CHECK_THAT(message(deflated({1, 2, 3, 4, 5})), contains("'x'") && contains("has 5 bytes; expected 6"));
  // It would inflate to 64 MiB.
  CHECK_THAT(message(deflated(std::vector<unsigned char>(std::size_t{1} << 26))),
             contains("longer than 6 bytes"));
  CHECK_THAT(message(six), contains("is damaged"));
  CHECK_THAT(message({1, 2, 3}, 1), contains("has 3 bytes; expected 6"));
  // Chunks that were never written.
  write_filtered(file, H5T_STD_U8LE, {H5Z_FILTER_DEFLATE}, [&](hid_t dataset) {
    const hsize_t at[] = {2, 3};
    const std::vector<unsigned char> stored = deflated(six);
    REQUIRE(H5Dwrite_chunk(dataset, H5P_DEFAULT, 0, at, stored.size(), stored.data()) >= 0);
  });
  CHECK_THAT(refusal([&] { Hdf5Reader(file, Compression::allowed).read<std::uint8_t>("x"); }),
             contains("a chunk of it was never written"));
}

TEST_CASE("a compressed dataset that claims far more than the file has is refused", "[io][hdf5]") {
  const TemporaryFolder folder;
  const fs::path file = folder / "file.h5";
  const hid_t id = H5Fcreate(file.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
  const hsize_t size = hsize_t{1000} * 1000 * 1000 * 1000, chunk = 1 << 20, first = 0;
  const hid_t space = H5Screate_simple(1, &size, nullptr), properties = H5Pcreate(H5P_DATASET_CREATE);
  H5Pset_chunk(properties, 1, &chunk);
  H5Pset_deflate(properties, 6);
  const hid_t dataset = H5Dcreate2(id, "x", H5T_IEEE_F32LE, space, H5P_DEFAULT, properties, H5P_DEFAULT);
  const std::vector<unsigned char> stored = deflated(std::vector<unsigned char>(4 * chunk));
  REQUIRE(H5Dwrite_chunk(dataset, H5P_DEFAULT, 0, &first, stored.size(), stored.data()) >= 0);
  H5Dclose(dataset);
  H5Pclose(properties);
  H5Sclose(space);
  H5Fclose(id);
  CHECK_THAT(refusal([&] { Hdf5Reader(file, Compression::allowed).read<float>("x"); }),
             contains("'x'") && contains("200 times as many as in the file"));
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
    WARN("permission not tested: this process is root and can become nobody else");
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

TEST_CASE("HDF5 prints nothing, and the application's own printer stays", "[io][hdf5]") {
  const TemporaryFolder folder;
  H5E_auto2_t old_printer = nullptr;
  void* old_data = nullptr;
  H5Eget_auto2(H5E_DEFAULT, &old_printer, &old_data);
  int printed = 0;
  const H5E_auto2_t printer = [](hid_t, void* count) -> herr_t { return ++*static_cast<int*>(count), 0; };
  H5Eset_auto2(H5E_DEFAULT, printer, &printed);
  write_small_file(folder / "file.h5");
  everything_in_small_file(folder / "file.h5");
  write_text(folder / "text.h5", "hello");
  refusal([&] { const Hdf5Reader reader(folder / "text.h5"); });
  refusal([&] { Hdf5Reader(folder / "file.h5").shape("cell"); });
  CHECK(printed == 0);
  H5E_auto2_t found_printer = nullptr;
  void* found_data = nullptr;
  H5Eget_auto2(H5E_DEFAULT, &found_printer, &found_data);
  CHECK(found_printer == printer);
  CHECK(found_data == &printed);
  H5Eset_auto2(H5E_DEFAULT, old_printer, old_data);
}

TEST_CASE("nothing of HDF5 stays open behind us", "[io][hdf5]") {
  const TemporaryFolder folder;
  write_small_file(folder / "file.h5");
  write_text(folder / "half.h5", content(folder / "file.h5").substr(0, 1000));
  const auto open_identifiers = [] { return H5Fget_obj_count(H5F_OBJ_ALL, H5F_OBJ_ALL); };
  const ssize_t before = open_identifiers();
  everything_in_small_file(folder / "file.h5");
  refusal([&] { const Hdf5Reader reader(folder / "half.h5"); });
  refusal([&] { Hdf5Reader(folder / "file.h5").read<float>("cell/integers"); });
  CHECK(open_identifiers() == before);
}

TEST_CASE("a full disk leaves the old HDF5 file whole", "[io][hdf5]") {
  const TemporaryFolder folder;
  const fs::path file = folder / "file.h5";
  write_small_file(file);
  const std::string old = content(file);
  const std::string message = message_from_child([&] {
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{10000, 10000};
    setrlimit(RLIMIT_FSIZE, &limit);
    Hdf5Writer writer;
    writer.dataset("large", Tensor<double>(Shape{100, 100}));
    writer.commit(file);
  });
  CHECK_THAT(message, contains("file.h5") && contains("File too large"));
  CHECK(content(file) == old);
  CHECK_FALSE(fs::exists(folder / ".file.h5.tmp"));
}

// The three tests that follow run save_twice, which saves A, then B, and let its N-th call not go well, for
// every N that there is.
namespace {

const char* const save_twice_program = ORTHORNN_SAVE_TWICE;
const char* const kill_at_call_library = ORTHORNN_KILL_AT_CALL;

struct Contents {
  std::string a;
  std::string b;

  explicit Contents(const fs::path& scratch) {
    const std::string file = scratch / "expected.h5";
    REQUIRE(run_program({save_twice_program, file, "first"}, {}, scratch).exit_code == 0);
    a = content(file);
    REQUIRE(run_program({save_twice_program, file}, {}, scratch).exit_code == 0);
    b = content(file);
    REQUIRE(a != b);
    REQUIRE(Hdf5Reader(file).string_attribute("/", "content") == "B");
  }
  // Is the file what it may be after the program said `output`?
  bool allow(const fs::path& file, const std::string& output) const {
    const std::string found = content(file);
    if (output.find("saved B") != std::string::npos) return found == b;
    if (output.find("saved A") != std::string::npos) return found == a || found == b;
    return found == a || !fs::exists(file);
  }
};

bool says(const std::string& text, const std::string& words) { return text.find(words) != std::string::npos; }

}  // namespace

TEST_CASE("a kill at any call leaves the old file or the new one", "[io][hdf5][crash][long]") {
  const TemporaryFolder folder, scratch;
  const fs::path file = folder / "file.h5";
  const Contents contents(scratch.path());
  std::vector<std::string> calls;
  while (true) {
    fs::remove(file);
    const auto variables =
        kill_at_call(kill_at_call_library, folder.path(), static_cast<int>(calls.size()) + 1);
    const auto result = run_program({save_twice_program, file}, variables, scratch.path());
    CAPTURE(result.errors, result.output);
    REQUIRE(contents.allow(file, result.output));
    if (!says(result.errors, "kill_at_call:")) {
      REQUIRE(result.exit_code == 0);
      break;
    }
    REQUIRE(result.signal == SIGKILL);
    calls.push_back(result.errors);
    // The next save is not disturbed by what is left.
    REQUIRE(run_program({save_twice_program, file}, {}, scratch.path()).exit_code == 0);
    REQUIRE(content(file) == contents.b);
    REQUIRE_FALSE(fs::exists(folder / ".file.h5.tmp"));
  }
  // A kill does not empty the disk's caches as a power cut does. So, for that: the bytes are forced to disk
  // right before the file takes its name, and the folder right after.
  int renames = 0;
  for (std::size_t i = 1; i + 1 < calls.size(); ++i) {
    if (!says(calls[i], "rename of")) continue;
    CHECK_THAT(calls[i - 1], contains("fsync of") && contains("/.file.h5.tmp"));
    CHECK_THAT(calls[i + 1], contains("fsync of " + fs::canonical(folder.path()).string() + "\n"));
    ++renames;
  }
  CHECK(renames == 2);
}

TEST_CASE("a dataset is read in pieces of few numbers, whatever its chunks", "[io][hdf5]") {
  const TemporaryFolder folder;
  const fs::path file = folder / "file.h5";
  Tensor<float> numbers({7, 5, 3});
  for (Index i = 0; i < numbers.size(); ++i) numbers.data()[i] = static_cast<float>(i);
  Hdf5Writer writer(GENERATE(1 << 20, 40, 130));
  writer.dataset("numbers", numbers);
  writer.dataset("wide", ConstTensorView<std::int64_t>(std::vector<std::int64_t>{1, -2, 3}.data(), {3}));
  writer.commit(file);
  const Hdf5Reader reader(file);
  for (const Index most : {1, 16, 40, 1000}) {
    std::vector<float> found;
    Index largest = 0;
    reader.read_in_pieces<float>("numbers", most, [&](TensorView<const float> piece) {
      found.insert(found.end(), piece.begin(), piece.end());
      largest = std::max(largest, piece.size());
    });
    CHECK(std::equal(found.begin(), found.end(), numbers.begin(), numbers.end()));
    CHECK(largest <= std::max<Index>(most, 15));
  }
  std::int64_t sum = 0;
  reader.read_in_pieces<std::int64_t>("wide", 2, [&](TensorView<const std::int64_t> piece) {
    for (const std::int64_t x : piece) sum = 10 * sum + x;
  });
  CHECK(sum == 83);
  CHECK_THROWS_WITH(reader.read_in_pieces<float>("wide", 2, [](TensorView<const float>) {}),
                    contains("expected floating-point numbers, found integers"));
  CHECK_FALSE(reader.place<float>("numbers"));  // it has a checksum, and so chunks
}

TEST_CASE("the place of a dataset in its file is told where the numbers lie as in memory", "[io][hdf5]") {
  const TemporaryFolder folder;
  const fs::path file = folder / "file.h5";
  const std::vector<float> numbers = {1.25F, -2.5F, 1e30F};
  const std::vector<std::int32_t> whole = {7, -8, 9};
  Hdf5Writer().commit(file);
  {
    const Hdf5Edit edit(file);
    edit.dataset("plain", H5T_IEEE_F32LE, {3}, H5P_DEFAULT, numbers.data());
    edit.dataset("whole", H5T_STD_I32LE, {3}, H5P_DEFAULT, whole.data());
    const Hdf5Edit::Sizes chunk = {2};
    const hid_t chunks = H5Pcreate(H5P_DATASET_CREATE);
    H5Pset_chunk(chunks, 1, chunk.data());
    edit.dataset("chunks", H5T_IEEE_F32LE, {3}, chunks, numbers.data());
    H5Pclose(chunks);
  }
  const Hdf5Reader reader(file);
  const std::string bytes = content(file);
  const auto has = [&](std::optional<std::uint64_t> place, const auto& expected) {
    return place && std::memcmp(bytes.data() + *place, expected.data(), 12) == 0;
  };
  CHECK(has(reader.place<float>("plain"), numbers));
  CHECK(has(reader.place<std::int32_t>("whole"), whole));
  CHECK_FALSE(reader.place<std::int32_t>("plain"));
  CHECK_FALSE(reader.place<float>("chunks"));
}

TEST_CASE("an error of any call is told and leaves the old file or the new one", "[io][hdf5][crash][long]") {
  const TemporaryFolder folder, scratch;
  const fs::path file = folder / "file.h5";
  const Contents contents(scratch.path());
  const std::string error = GENERATE(as<std::string>{}, "ENOSPC", "EIO");
  for (int n = 1;; ++n) {
    fs::remove(file);
    const auto variables = kill_at_call(kill_at_call_library, folder.path(), n, error);
    const auto result = run_program({save_twice_program, file}, variables, scratch.path());
    CAPTURE(result.errors, result.output);
    REQUIRE(contents.allow(file, result.output));
    REQUIRE_FALSE(fs::exists(folder / ".file.h5.tmp"));
    if (!says(result.errors, "kill_at_call:")) {
      REQUIRE(result.exit_code == 0);
      REQUIRE(n > 10);
      break;
    }
    REQUIRE(result.exit_code == 1);
    REQUIRE_THAT(result.errors,
                 contains("save_twice: cannot write '" + file.string() +
                          "': " + (error == "EIO" ? "Input/output error" : "No space left on device")));
  }
}

TEST_CASE("a call that a signal interrupts is made again", "[io][hdf5][crash]") {
  const TemporaryFolder folder, scratch;
  const fs::path file = folder / "file.h5";
  const Contents contents(scratch.path());
  for (int n = 1;; ++n) {
    fs::remove(file);
    const auto result =
        run_program({save_twice_program, file}, kill_at_call(kill_at_call_library, folder.path(), n, "EINTR"),
                    scratch.path());
    CAPTURE(result.errors, result.output);
    if (says(result.errors, "rename of")) continue;  // not a call that signals interrupt
    REQUIRE(result.exit_code == 0);
    REQUIRE(content(file) == contents.b);
    if (!says(result.errors, "kill_at_call:")) break;
  }
}
