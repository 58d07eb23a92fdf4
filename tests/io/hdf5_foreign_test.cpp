// HDF5 files of other programs: their types, chunks and compression.

#include <fmt/format.h>
#include <hdf5.h>
#include <zlib.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <initializer_list>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "io/hdf5_files.hpp"
#include "orthornn/io/hdf5.hpp"
#include "support/catch.hpp"
#include "support/child_process.hpp"
#include "support/errors.hpp"
#include "support/hdf5_edit.hpp"
#include "support/same_bits.hpp"
#include "support/temporary_folder.hpp"

namespace fs = std::filesystem;
using namespace orthornn;
using namespace orthornn::testing;

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
  CHECK_THAT(message(deflated(std::vector<unsigned char>(512))), contains("longer than 6 bytes"));
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

TEST_CASE("chunks are put into place by any number of threads, with and without compression", "[io][hdf5]") {
  struct Case {
    std::vector<hsize_t> sizes, chunk;
  };
  const Case given = GENERATE(Case{{100}, {7}}, Case{{50, 7}, {50, 1}}, Case{{31, 20, 9}, {4, 3, 1}},
                              Case{{9, 4, 12, 5}, {2, 3, 12, 2}});
  const bool compressed = GENERATE(false, true);
  const TemporaryFolder folder;
  const fs::path file = folder / "file.h5";
  Tensor<float> numbers(Shape(given.sizes.begin(), given.sizes.end()));
  for (Index i = 0; i < numbers.size(); ++i) numbers.data()[i] = static_cast<float>(i);
  Hdf5Writer().commit(file);
  const hid_t properties = H5Pcreate(H5P_DATASET_CREATE);
  H5Pset_chunk(properties, static_cast<int>(given.chunk.size()), given.chunk.data());
  if (compressed) H5Pset_deflate(properties, 1);
  // Of the type that is read, and of one that is converted.
  const std::vector<double> wide(numbers.begin(), numbers.end());
  Hdf5Edit(file).dataset("plain", H5T_IEEE_F32LE, given.sizes, properties, numbers.data());
  Hdf5Edit(file).dataset("wide", H5T_IEEE_F64LE, given.sizes, properties, wide.data());
  H5Pclose(properties);
  for (const int threads : {1, 3}) {
    const Threads several(threads);
    const Hdf5Reader reader(file, Compression::allowed);
    for (const char* name : {"plain", "wide"}) {
      for (const Index most : {1, 200, 1 << 20}) {
        std::vector<float> found;
        reader.read_in_pieces<float>(name, most, [&](TensorView<const float> piece) {
          found.insert(found.end(), piece.begin(), piece.end());
        });
        CAPTURE(name, most, threads);
        REQUIRE(std::ranges::equal(found, numbers));
      }
    }
  }
}

TEST_CASE("a chunk that was never written is refused however it would be read", "[io][hdf5]") {
  const TemporaryFolder folder;
  const fs::path file = folder / "file.h5";
  // Nine chunks of [2, 3] have more bytes than [5, 7] needs, so that eight of them might do.
  for (const std::vector<H5Z_filter_t>& filters :
       std::initializer_list<std::vector<H5Z_filter_t>>{{}, {H5Z_FILTER_FLETCHER32}, {H5Z_FILTER_DEFLATE}}) {
    const bool deflates = !filters.empty() && filters[0] == H5Z_FILTER_DEFLATE;
    std::vector<unsigned char> stored(24 + (filters.empty() ? 0 : 4));
    if (deflates) stored = deflated(std::vector<unsigned char>(24));
    write_filtered(file, H5T_IEEE_F32LE, filters, [&](hid_t dataset) {
      for (hsize_t row = 0; row < 6; row += 2) {
        for (hsize_t column = 0; column < 9; column += 3) {
          const hsize_t at[] = {row, column};
          if (row + column > 0)
            REQUIRE(H5Dwrite_chunk(dataset, H5P_DEFAULT, 0, at, stored.size(), stored.data()) >= 0);
        }
      }
    });
    const Hdf5Reader reader(file, Compression::allowed);
    const auto told = contains("a chunk of it was never written");
    CHECK_THAT(refusal([&] { reader.read<float>("x"); }), told);
    for (const Index most : {1, 1000})
      CHECK_THAT(refusal([&] { reader.read_in_pieces<float>("x", most, [](TensorView<const float>) {}); }),
                 told);
  }
}

TEST_CASE("numbers beyond the extent of a dataset are not converted", "[io][hdf5]") {
  const TemporaryFolder folder;
  const fs::path file = folder / "file.h5";
  const bool compressed = GENERATE(false, true);
  write_filtered(file, H5T_STD_U64LE,
                 compressed ? std::vector<H5Z_filter_t>{H5Z_FILTER_DEFLATE} : std::vector<H5Z_filter_t>{},
                 [&](hid_t dataset) {
                   for (hsize_t row = 0; row < 6; row += 2) {
                     for (hsize_t column = 0; column < 9; column += 3) {
                       // Padding has numbers of 2^63 and more.
                       std::vector<std::uint64_t> numbers(6, ~std::uint64_t{0});
                       for (hsize_t i = 0; i < 6; ++i) {
                         const hsize_t y = row + i / 3, x = column + i % 3;
                         if (y < 5 && x < 7) numbers[i] = 10 * y + x;
                       }
                       std::vector<unsigned char> bytes(48);
                       std::memcpy(bytes.data(), numbers.data(), 48);
                       if (compressed) bytes = deflated(bytes);
                       const hsize_t at[] = {row, column};
                       REQUIRE(H5Dwrite_chunk(dataset, H5P_DEFAULT, 0, at, bytes.size(), bytes.data()) >= 0);
                     }
                   }
                 });
  Index count = 0;
  const Hdf5Reader reader(file, Compression::allowed);
  reader.read_in_pieces<std::int64_t>("x", 1000, [&](TensorView<const std::int64_t> piece) {
    for (const std::int64_t x : piece) {
      CHECK(x == 10 * (count / 7) + count % 7);
      ++count;
    }
  });
  CHECK(count == 35);
}

TEST_CASE("a compressed chunk takes no more memory than its numbers can need", "[io][hdf5]") {
  const TemporaryFolder folder;
  const fs::path file = folder / "file.h5";
  write_filtered(file, H5T_IEEE_F32LE, {H5Z_FILTER_DEFLATE}, [](hid_t dataset) {
    std::vector<unsigned char> stored = deflated(std::vector<unsigned char>(24));
    stored.resize(60000);  // uncompress stops where the compressed bytes end
    for (hsize_t row = 0; row < 6; row += 2) {
      for (hsize_t column = 0; column < 9; column += 3) {
        const hsize_t at[] = {row, column};
        REQUIRE(H5Dwrite_chunk(dataset, H5P_DEFAULT, 0, at, stored.size(), stored.data()) >= 0);
      }
    }
  });
  CHECK_THAT(refusal([&] { Hdf5Reader(file, Compression::allowed).read<float>("x"); }),
             contains("'x'") && contains("has 60000 bytes in the file; expected at most "));
}
