#include "orthornn/io/hdf5.hpp"

#include <hdf5.h>

#include <algorithm>
#include <initializer_list>
#include <limits>
#include <string>
#include <vector>

#include "io/hdf5_files.hpp"
#include "support/catch.hpp"
#include "support/child_process.hpp"
#include "support/errors.hpp"
#include "support/temporary_folder.hpp"
#include "support/text_file.hpp"

namespace fs = std::filesystem;
using namespace orthornn;
using namespace orthornn::testing;

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
