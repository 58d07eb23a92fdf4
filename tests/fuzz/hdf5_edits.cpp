#include "fuzz/hdf5_edits.hpp"

#include <fmt/format.h>

#include <array>
#include <cstring>
#include <fstream>
#include <initializer_list>
#include <iterator>
#include <limits>

#include "io/hdf5_handle.hpp"
#include "support/temporary_folder.hpp"

// HDF5's own checksum of metadata, which its header for users does not declare.
extern "C" std::uint32_t H5_checksum_metadata(const void* data, std::size_t length, std::uint32_t start);

namespace orthornn::fuzz {
namespace {

using Json = nlohmann::ordered_json;

/// Of the values that are written to a dataset or an attribute.
constexpr std::uint64_t most_bytes = 1U << 20;

/// Wrong steps of a program do nothing: an HDF5 call that fails gives an identifier that is none.
Hdf5Handle attempt(hid_t id) { return Hdf5Handle(id); }

/// An empty file where there is no image.
Hdf5Handle open_image(const std::vector<std::uint8_t>& image, H5F_libver_t oldest) {
  const std::string what = "open an image";
  const Hdf5Handle access = own(H5Pcreate(H5P_FILE_ACCESS), what);
  check(H5Pset_fapl_core(access, 1U << 16, false), what);
  check(H5Pset_libver_bounds(access, oldest, H5F_LIBVER_V110), what);
  check(H5Pset_fclose_degree(access, H5F_CLOSE_STRONG), what);
  // HDF5 takes images of one name for one file.
  if (image.empty()) return own(H5Fcreate("new image", H5F_ACC_TRUNC, H5P_DEFAULT, access), what);
  check(H5Pset_file_image(access, const_cast<std::uint8_t*>(image.data()), image.size()), what);
  return own(H5Fopen("image", H5F_ACC_RDWR, access), what);
}

/// Puts HDF5's checksum of `count` bytes behind them.
void seal(std::vector<std::uint8_t>& image, std::size_t first, std::size_t count) {
  if (first + count + 4 > image.size()) return;
  const std::uint32_t sum = H5_checksum_metadata(image.data() + first, count, 0);
  std::memcpy(image.data() + first + count, &sum, sizeof sum);
}

std::vector<std::uint8_t> image_of(hid_t file) {
  check(H5Fflush(file, H5F_SCOPE_GLOBAL), "flush an image");
  std::vector<std::uint8_t> image(
      static_cast<std::size_t>(check(H5Fget_file_image(file, nullptr, 0), "get an image")));
  check(H5Fget_file_image(file, image.data(), image.size()), "get an image");
  // HDF5 has changed the superblock's flags of an open file, and not the checksum.
  if (image[8] >= 2) seal(image, 0, 44);
  return image;
}

std::string text_attribute(hid_t object, const std::string& name) {
  const Hdf5Handle attribute = own(H5Aopen(object, name.c_str(), H5P_DEFAULT), "read text");
  const Hdf5Handle type = own(H5Aget_type(attribute), "read text");
  if (H5Tis_variable_str(type) > 0) {
    char* text = nullptr;
    check(H5Aread(attribute, type, &text), "read text");
    const std::string result = text;
    H5free_memory(text);
    return result;
  }
  std::string text(H5Tget_size(type), '\0');
  check(H5Aread(attribute, type, text.data()), "read text");
  return text;
}

std::vector<std::string> attributes_of(hid_t object) {
  std::vector<std::string> names;
  const auto add = [](hid_t, const char* name, const H5A_info_t*, void* to) -> herr_t {
    static_cast<std::vector<std::string>*>(to)->emplace_back(name);
    return 0;
  };
  check(H5Aiterate2(object, H5_INDEX_NAME, H5_ITER_INC, nullptr, add, &names), "list attributes");
  return names;
}

/// Applies one program to one file.
class Edit {
 public:
  Edit(const SoundFile& sound, EditProgram& program, const std::string& outside)
      : sound_(sound), program_(program), outside_(outside), config_(sound.config) {}

  std::vector<std::uint8_t> run() {
    const QuietHdf5 quiet;
    const bool newest = program_.flag();
    const Hdf5Handle file = open_image(sound_.image, newest ? H5F_LIBVER_V110 : H5F_LIBVER_EARLIEST);
    file_ = file;
    // Mostly few steps: after many of them a file is refused for the first of its faults.
    for (std::size_t left = program_.one_of<std::size_t>({0, 1, 1, 1, 2, 3, 5, 20}); left > 0; --left) {
      apply_step();
    }
    if (config_ != sound_.config) write_text("/", "config", json_text(config_));
    return image_of(file);
  }

  std::vector<std::uint8_t> run_and_damage() {
    image_ = run();
    const bool sealed = program_.flag();
    while (!program_.ended()) damage_byte();
    if (sealed) seal_all();
    return std::move(image_);
  }

 private:
  void apply_step() {
    const std::size_t step = program_.below(14);
    // What steps have put in the place of datasets is not read here: HDF5 may not come back from it.
    const bool reads = step >= 11;
    if (reads && !structure_is_sound_) return;
    if (step >= 6 && step <= 10) structure_is_sound_ = false;
    switch (step) {
      case 0:
      case 1:
        return replace_attribute();
      case 2:
        return delete_attribute();
      case 3:
      case 4:
      case 5:
        return change_config();
      case 6:
      case 7:
        return replace_dataset();
      case 8:
        return replace_by_link();
      case 9:
        return replace_by_other_object();
      case 10:
        return delete_object();
      case 11:
      case 12:
        return change_values();
      default:
        return set_number();
    }
  }

  // What a step is about.
  const std::string& object() { return program_.element_of(sound_.objects).path; }
  std::string attribute_of(const std::string& path) {
    const auto found = std::find_if(sound_.objects.begin(), sound_.objects.end(),
                                    [&](const SoundFile::Object& o) { return o.path == path; });
    if (found == sound_.objects.end() || found->attributes.empty() || program_.below(8) == 0) return "crc32";
    return program_.element_of(found->attributes);
  }
  std::string dataset() {
    std::vector<std::string> datasets;
    for (const SoundFile::Object& one : sound_.objects) {
      if (one.dataset) datasets.push_back(one.path);
    }
    return datasets.empty() ? "x" : program_.element_of(datasets);
  }

  // Types, extents and storage that a file can have.
  Hdf5Handle type(int depth = 0) {
    const std::size_t kind = program_.below(depth < 3 ? 20 : 12);
    switch (kind) {
      case 0:
        return attempt(H5Tcopy(H5T_STD_I64LE));
      case 1:
        return attempt(H5Tcopy(H5T_STD_U64LE));
      case 2:
        return attempt(H5Tcopy(H5T_STD_I32LE));
      case 3:
        return attempt(H5Tcopy(program_.one_of(
            {H5T_STD_I8LE, H5T_STD_U8BE, H5T_STD_I16BE, H5T_STD_U32LE, H5T_STD_I32BE, H5T_STD_I64BE})));
      case 4:
        return attempt(H5Tcopy(H5T_IEEE_F32LE));
      case 5:
        return attempt(
            H5Tcopy(program_.one_of({H5T_IEEE_F64LE, H5T_IEEE_F32BE, H5T_IEEE_F64BE, H5T_NATIVE_LDOUBLE})));
      case 6:
      case 7: {
        Hdf5Handle text = attempt(H5Tcopy(H5T_C_S1));
        const std::uint64_t size = program_.size();
        H5Tset_size(text, program_.below(4) == 0 ? H5T_VARIABLE : std::max<std::uint64_t>(size, 1));
        H5Tset_strpad(text, program_.one_of({H5T_STR_NULLTERM, H5T_STR_NULLPAD, H5T_STR_SPACEPAD}));
        H5Tset_cset(text, program_.flag() ? H5T_CSET_UTF8 : H5T_CSET_ASCII);
        return text;
      }
      case 8:
        return attempt(H5Tcopy(program_.one_of(
            {H5T_STD_B8LE, H5T_STD_B64BE, H5T_UNIX_D32LE, H5T_STD_REF_OBJ, H5T_STD_REF_DSETREG})));
      case 9:
        return attempt(H5Tcreate(H5T_OPAQUE, std::max<std::uint64_t>(program_.size() % 70000, 1)));
      case 10: {  // a number of odd precision
        Hdf5Handle number = attempt(H5Tcopy(program_.flag() ? H5T_STD_I64LE : H5T_STD_U32BE));
        H5Tset_precision(number, program_.below(64) + 1);
        H5Tset_offset(number, program_.below(64));
        return number;
      }
      case 11: {
        Hdf5Handle number = attempt(H5Tcopy(H5T_IEEE_F32LE));
        H5Tset_ebias(number, program_.size());
        const std::size_t exponent = program_.below(32), mantissa = program_.below(32);
        H5Tset_fields(number, 31, exponent, program_.below(12) + 1, mantissa, program_.below(24) + 1);
        return number;
      }
      case 12:
      case 13:
      case 14:
      case 15: {
        const Hdf5Handle base = type(depth + 1);
        hsize_t sizes[H5S_MAX_RANK] = {};
        const unsigned rank = static_cast<unsigned>(program_.below(6)) + 1;
        for (unsigned i = 0; i < rank; ++i) sizes[i] = program_.size();
        return attempt(H5Tarray_create2(base, rank, sizes));
      }
      case 16:
        return attempt(H5Tvlen_create(type(depth + 1)));
      case 17: {
        const Hdf5Handle first = type(depth + 1), second = type(depth + 1);
        const std::size_t first_size = H5Tget_size(first), second_size = H5Tget_size(second);
        Hdf5Handle compound = attempt(H5Tcreate(H5T_COMPOUND, first_size + second_size));
        H5Tinsert(compound, "a", 0, first);
        H5Tinsert(compound, "b", first_size, second);
        return compound;
      }
      default: {
        Hdf5Handle values = attempt(H5Tenum_create(H5T_STD_I32LE));
        const std::int32_t zero = 0, one = 1;
        H5Tenum_insert(values, "FALSE", &zero);
        H5Tenum_insert(values, "TRUE", &one);
        return values;
      }
    }
  }

  Hdf5Handle space(const std::vector<hsize_t>& before) {
    std::vector<hsize_t> sizes = before;
    switch (program_.below(8)) {
      case 0:
        return attempt(H5Screate(H5S_NULL));
      case 1:
        return attempt(H5Screate(H5S_SCALAR));
      case 2:
      case 3:
        break;
      case 4:
        if (!sizes.empty()) sizes[program_.below(sizes.size())] = program_.size();
        break;
      default:
        sizes.resize(program_.below(7));
        for (hsize_t& size : sizes) size = program_.size();
    }
    if (sizes.empty()) return attempt(H5Screate(H5S_SCALAR));
    std::vector<hsize_t> most = sizes;
    if (program_.below(4) == 0) most.assign(sizes.size(), H5S_UNLIMITED);
    return attempt(H5Screate_simple(static_cast<int>(sizes.size()), sizes.data(), most.data()));
  }

  Hdf5Handle storage(hid_t space, hid_t type) {
    Hdf5Handle properties = attempt(H5Pcreate(H5P_DATASET_CREATE));
    const int rank = std::max(H5Sget_simple_extent_ndims(space), 0);
    std::array<hsize_t, H5S_MAX_RANK> sizes{};
    if (rank > 0) H5Sget_simple_extent_dims(space, sizes.data(), nullptr);
    // Storage is taken when something is written and no sooner, whatever size is claimed.
    switch (program_.below(8)) {
      case 0:
        H5Pset_layout(properties, H5D_COMPACT);
        break;
      case 1:
      case 2:
        H5Pset_alloc_time(properties, H5D_ALLOC_TIME_LATE);
        break;
      case 3: {
        H5Pset_external(properties, outside_.c_str(), static_cast<off_t>(program_.byte()),
                        program_.flag() ? H5F_UNLIMITED : program_.size());
        break;
      }
      case 4: {
        const std::string source = program_.one_of<std::string>({".", outside_});
        const Hdf5Handle other = attempt(H5Scopy(space));
        H5Pset_virtual(properties, space, source.c_str(), dataset().c_str(), other);
        break;
      }
      default: {
        const bool whole = program_.flag();
        for (hsize_t& size : sizes) {
          if (!whole) size = program_.size();
        }
        if (rank > 0) H5Pset_chunk(properties, rank, sizes.data());
        add_filters(properties);
      }
    }
    if (program_.below(4) == 0) {
      const std::uint64_t fill = program_.size();
      H5Pset_fill_value(properties, H5T_NATIVE_UINT64, &fill);
    }
    if (program_.below(8) == 0) H5Pset_fill_value(properties, type, nullptr);
    return properties;
  }

  void add_filters(hid_t properties) {
    for (std::size_t left = program_.below(4); left > 0; --left) {
      switch (program_.below(7)) {
        case 0:
          H5Pset_deflate(properties, static_cast<unsigned>(program_.below(10)));
          break;
        case 1:
          H5Pset_shuffle(properties);
          break;
        case 2:
          H5Pset_fletcher32(properties);
          break;
        case 3:
          H5Pset_nbit(properties);
          break;
        case 4:
          H5Pset_scaleoffset(properties, program_.one_of({H5Z_SO_FLOAT_DSCALE, H5Z_SO_INT}),
                             static_cast<int>(program_.byte()));
          break;
        case 5:
          H5Pset_szip(properties, H5_SZIP_NN_OPTION_MASK, 8);
          break;
        default: {
          std::array<unsigned, 8> values{};
          for (unsigned& value : values) value = static_cast<unsigned>(program_.size());
          H5Pset_filter(properties, static_cast<H5Z_filter_t>(program_.number(2)), H5Z_FLAG_OPTIONAL,
                        program_.below(8), values.data());
        }
      }
    }
  }

  /// Memory for `count` values of a type, filled from the program and then with what `fill` says; none where
  /// that would be too much, or where values are pointers.
  std::vector<std::uint8_t> values(hid_t type, hssize_t count) {
    const std::size_t size = H5Tget_size(type);
    if (count <= 0 || size == 0 || static_cast<std::uint64_t>(count) > most_bytes / size) return {};
    if (H5Tdetect_class(type, H5T_VLEN) > 0 || H5Tdetect_class(type, H5T_STRING) > 0 ||
        H5Tdetect_class(type, H5T_REFERENCE) > 0)
      return {};
    std::vector<std::uint8_t> bytes(static_cast<std::size_t>(count) * size,
                                    program_.one_of<std::uint8_t>({0, 1, 0x3f, 0x7f, 0x80, 0xff}));
    const Bytes given = program_.some(std::min<std::size_t>(bytes.size(), program_.byte()));
    std::copy(given.begin(), given.end(), bytes.begin());
    return bytes;
  }

  void replace_attribute() {
    const std::string path = object(), name = attribute_of(path);
    const Hdf5Handle type = this->type(), space = this->space({});
    const hssize_t count = H5Sget_simple_extent_npoints(space);
    // HDF5 would have to hold all of it to write it.
    if (count < 0 ||
        static_cast<std::uint64_t>(count) > most_bytes / std::max<std::size_t>(H5Tget_size(type), 1))
      return;
    const Hdf5Handle owner = attempt(H5Oopen(file_, path.c_str(), H5P_DEFAULT));
    H5Adelete(owner, name.c_str());
    const Hdf5Handle attribute =
        attempt(H5Acreate2(owner, name.c_str(), type, space, H5P_DEFAULT, H5P_DEFAULT));
    if (H5Tis_variable_str(type) > 0 && count == 1) {
      const std::string text = this->text();
      const char* start = text.c_str();
      H5Awrite(attribute, type, &start);
    } else if (H5Tget_class(type) == H5T_STRING && count == 1 && H5Tget_size(type) < (1U << 16)) {
      std::string text = this->text();
      text.resize(H5Tget_size(type), ' ');
      H5Awrite(attribute, type, text.data());
    } else if (const auto bytes = values(type, count); !bytes.empty()) {
      H5Awrite(attribute, type, bytes.data());
    }
  }

  std::string text() {
    switch (program_.below(5)) {
      case 0:
        return text_of(program_.some(program_.byte()));
      case 1:
        return std::string(program_.number(3) % 3000000, '[');
      case 2: {
        const std::size_t depth = program_.number(2);
        return R"({"model": )" + std::string(depth, '[') + std::string(depth, ']') + "}";
      }
      case 3:
        return program_.one_of<std::string>({"orthornn-model", "rmsprop", "adam", "sgd", "copying", "mnist",
                                             "adding", "\xff\xfe", "", "{}", "[]", "null"});
      default:
        return json_text(config_);
    }
  }

  /// Whatever bytes its texts have.
  static std::string json_text(const Json& json) {
    return json.dump(-1, ' ', false, Json::error_handler_t::replace);
  }

  void write_text(const char* path, const char* name, const std::string& text) {
    const Hdf5Handle owner = attempt(H5Oopen(file_, path, H5P_DEFAULT));
    const Hdf5Handle type = attempt(H5Tcopy(H5T_C_S1));
    // More does not fit into an object header.
    const bool variable = text.size() > 60000;
    H5Tset_size(type, variable ? H5T_VARIABLE : std::max<std::size_t>(text.size(), 1));
    H5Tset_cset(type, H5T_CSET_UTF8);
    if (!variable) H5Tset_strpad(type, H5T_STR_NULLPAD);
    H5Adelete(owner, name);
    const Hdf5Handle scalar = attempt(H5Screate(H5S_SCALAR));
    const Hdf5Handle attribute = attempt(H5Acreate2(owner, name, type, scalar, H5P_DEFAULT, H5P_DEFAULT));
    const char* start = text.c_str();
    H5Awrite(attribute, type, variable ? static_cast<const void*>(&start) : start);
  }

  void delete_attribute() {
    const std::string path = object();
    const Hdf5Handle owner = attempt(H5Oopen(file_, path.c_str(), H5P_DEFAULT));
    H5Adelete(owner, attribute_of(path).c_str());
  }

  /// A number, a word or a structure that some setting might be given.
  Json json_value() {
    switch (program_.below(12)) {
      case 0:
        return program_.size();
      case 1:
        return static_cast<std::int64_t>(program_.size());
      case 2:
        return -static_cast<std::int64_t>(program_.byte());
      case 3:
        return program_.one_of<double>(
            {1e30, -1e30, 1e308, 0.5, 1e-300, -0.0, 4611686018427387948.0, 8.0, 8.5});
      case 4:
        return program_.flag();
      case 5:
        return nullptr;
      case 6:
        return text_of(program_.some(program_.below(32)));
      case 7:
        return program_.one_of<std::string>({"cwy",
                                             "householder",
                                             "cayley",
                                             "expm",
                                             "own",
                                             "matrix",
                                             "free",
                                             "dense",
                                             "one_hot",
                                             "embedding",
                                             "every_step",
                                             "last_step",
                                             "henaff",
                                             "haar",
                                             "normal",
                                             "automatic",
                                             "factored",
                                             "stiefel",
                                             "tanh",
                                             "relu",
                                             "abs",
                                             "modrelu",
                                             "identity",
                                             "sgd",
                                             "rmsprop",
                                             "adam",
                                             "adamw",
                                             "cosine",
                                             "step",
                                             "constant",
                                             "softmax_cross_entropy",
                                             "mean_squared_error",
                                             "copying",
                                             "adding",
                                             "mnist"});
      case 8: {
        Json deep = Json::array();
        for (std::size_t depth = program_.number(2) % 500; depth > 0; --depth) {
          Json outer = Json::array();
          outer.push_back(std::move(deep));
          deep = std::move(outer);
        }
        return deep;
      }
      case 9:
        return Json::object();
      case 10:
        return Json(program_.number(2) % 3000, Json(program_.size()));
      default:
        return sound_.config.value(program_.one_of<std::string>({"model", "task", "training"}), Json());
    }
  }

  void change_config() {
    if (!config_.is_structured()) return;
    // From the root down to where the program says.
    Json* at = &config_;
    while (at->is_structured() && !at->empty() && (at == &config_ || program_.below(4) != 0)) {
      auto entry = at->begin();
      std::advance(entry,
                   static_cast<std::ptrdiff_t>(program_.below(std::min<std::size_t>(at->size(), 256))));
      at = &*entry;
    }
    switch (program_.below(4)) {
      case 0:
        if (at->is_array() && !at->empty()) {  // many of them: cells
          const Json one = at->front();
          const std::size_t count = program_.one_of<std::size_t>({0, 2, 3, 16, 1000, 20000});
          if (json_text(one).size() * count < (1U << 22)) at->get_ref<Json::array_t&>().assign(count, one);
        } else if (at->is_object()) {
          at->clear();
        } else {
          *at = json_value();
        }
        break;
      case 1:
        if (at->is_object()) {
          (*at)[program_.one_of<std::string>({"kind", "size", "delay", "length", "batch", "x"})] =
              json_value();
        } else if (at->is_array()) {
          at->push_back(json_value());
        } else {
          *at = json_value();
        }
        break;
      default:
        *at = json_value();
    }
  }

  /// The attribute crc32, where it is still one integer.
  static Hdf5Handle checksum_of(hid_t dataset) {
    Hdf5Handle attribute = attempt(H5Aopen(dataset, checksum_attribute, H5P_DEFAULT));
    const Hdf5Handle type = attempt(H5Aget_type(attribute)), space = attempt(H5Aget_space(attribute));
    const bool is_one_integer = H5Tget_class(type) == H5T_INTEGER && H5Sget_simple_extent_npoints(space) == 1;
    return is_one_integer ? std::move(attribute) : Hdf5Handle();
  }

  void replace_dataset() {
    const std::string path = dataset();
    std::vector<hsize_t> sizes;
    bool keep_checksum = program_.flag();
    std::int64_t checksum = 0;
    {
      const Hdf5Handle before = attempt(H5Dopen2(file_, path.c_str(), H5P_DEFAULT));
      const Hdf5Handle extent = attempt(H5Dget_space(before));
      const int rank = H5Sget_simple_extent_ndims(extent);
      sizes.resize(static_cast<std::size_t>(std::max(rank, 0)));
      if (rank > 0) H5Sget_simple_extent_dims(extent, sizes.data(), nullptr);
      const Hdf5Handle attribute = checksum_of(before);
      keep_checksum = keep_checksum && H5Aread(attribute, H5T_NATIVE_INT64, &checksum) >= 0;
    }
    H5Ldelete(file_, path.c_str(), H5P_DEFAULT);
    const Hdf5Handle type = program_.below(3) == 0 ? this->type() : attempt(H5Tcopy(H5T_IEEE_F32LE));
    const Hdf5Handle space = this->space(sizes), properties = storage(space, type);
    const Hdf5Handle made =
        attempt(H5Dcreate2(file_, path.c_str(), type, space, H5P_DEFAULT, properties, H5P_DEFAULT));
    if (program_.flag()) write_values(made, type, space, properties);
    if (keep_checksum) {
      const Hdf5Handle scalar = attempt(H5Screate(H5S_SCALAR));
      const Hdf5Handle attribute =
          attempt(H5Acreate2(made, checksum_attribute, H5T_STD_I64LE, scalar, H5P_DEFAULT, H5P_DEFAULT));
      H5Awrite(attribute, H5T_NATIVE_INT64, &checksum);
    }
  }

  void write_values(hid_t dataset, hid_t type, hid_t space, hid_t properties) {
    const auto bytes = values(type, H5Sget_simple_extent_npoints(space));
    if (bytes.empty()) return;
    switch (H5Pget_layout(properties)) {
      case H5D_CHUNKED: {
        // As it is: some filters of HDF5 crash when they are to pack what does not suit them.
        const std::array<hsize_t, H5S_MAX_RANK> first{};
        H5Dwrite_chunk(dataset, H5P_DEFAULT, static_cast<unsigned>(program_.below(4)), first.data(),
                       bytes.size(), bytes.data());
        break;
      }
      case H5D_VIRTUAL:
        break;
      default:
        if (H5Pget_external_count(properties) <= 0)
          H5Dwrite(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, bytes.data());
    }
  }

  void replace_by_link() {
    const std::string path = object(), other = object();
    H5Ldelete(file_, path.c_str(), H5P_DEFAULT);
    switch (program_.below(5)) {
      case 0:
        H5Lcreate_soft(other.c_str(), file_, path.c_str(), H5P_DEFAULT, H5P_DEFAULT);
        break;
      case 1:
        H5Lcreate_soft(path.c_str(), file_, path.c_str(), H5P_DEFAULT, H5P_DEFAULT);
        break;
      case 2:
        H5Lcreate_external(outside_.c_str(), program_.flag() ? path.c_str() : "/", file_, path.c_str(),
                           H5P_DEFAULT, H5P_DEFAULT);
        break;
      case 3:
        H5Lcreate_hard(file_, other.c_str(), file_, path.c_str(), H5P_DEFAULT, H5P_DEFAULT);
        break;
      default:
        H5Lcreate_hard(file_, "/", file_, path.c_str(), H5P_DEFAULT, H5P_DEFAULT);
    }
  }

  void replace_by_other_object() {
    const std::string path = object();
    // HDF5 crashes when a type is closed that it could not commit, so here a simple one has to do.
    if (path == "/" || H5Lexists(file_, path.c_str(), H5P_DEFAULT) <= 0) return;
    H5Ldelete(file_, path.c_str(), H5P_DEFAULT);
    if (program_.flag()) {
      attempt(H5Gcreate2(file_, path.c_str(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
    } else {
      const Hdf5Handle committed = attempt(H5Tcopy(program_.one_of({H5T_IEEE_F32LE, H5T_STD_I64LE})));
      H5Tcommit2(file_, path.c_str(), committed, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    }
  }

  void delete_object() { H5Ldelete(file_, object().c_str(), H5P_DEFAULT); }

  /// Numbers of a dataset change, its shape does not, and its checksum says so or not.
  void change_values() {
    const std::string path = dataset();
    const Hdf5Handle data = attempt(H5Dopen2(file_, path.c_str(), H5P_DEFAULT));
    const Hdf5Handle type = attempt(H5Dget_type(data)), space = attempt(H5Dget_space(data));
    const hssize_t count = H5Sget_simple_extent_npoints(space);
    const std::size_t size = H5Tget_size(type);
    if (count <= 0 || count > 100000 || (size != 4 && size != 8)) return;
    if (H5Tget_class(type) != H5T_FLOAT && H5Tget_class(type) != H5T_INTEGER) return;
    std::vector<std::uint8_t> bytes(static_cast<std::size_t>(count) * size);
    if (H5Dread(data, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, bytes.data()) < 0) return;
    for (std::size_t changes = program_.below(4) + 1; changes > 0; --changes) {
      std::uint8_t* place = bytes.data() + program_.number(2) % static_cast<std::size_t>(count) * size;
      if (H5Tget_class(type) == H5T_FLOAT) {
        const float value = program_.one_of<float>({0, -0.0F, 1, -1, 1e30F, -3e38F, 1e-40F,
                                                    std::numeric_limits<float>::infinity(),
                                                    std::numeric_limits<float>::quiet_NaN()});
        std::memcpy(place, &value, sizeof value);
      } else {
        const std::int32_t value =
            program_.flag()
                ? static_cast<std::int32_t>(program_.byte())
                : program_.one_of<std::int32_t>(
                      {-1, 784, 1000000, std::numeric_limits<int>::max(), std::numeric_limits<int>::min()});
        std::memcpy(place, &value, sizeof value);
      }
    }
    if (program_.below(4) == 0) std::fill(bytes.begin(), bytes.end(), std::uint8_t{0});
    H5Dwrite(data, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, bytes.data());
    if (program_.below(4) == 0) return;
    const Hdf5Handle attribute = checksum_of(data);
    const std::int64_t checksum = orthornn::checksum(bytes.data(), bytes.size());
    H5Awrite(attribute, H5T_NATIVE_INT64, &checksum);
  }

  /// An integer or a float of an attribute, its type as it is.
  void set_number() {
    const std::string path = object();
    const Hdf5Handle owner = attempt(H5Oopen(file_, path.c_str(), H5P_DEFAULT));
    const Hdf5Handle attribute = attempt(H5Aopen(owner, attribute_of(path).c_str(), H5P_DEFAULT));
    const Hdf5Handle type = attempt(H5Aget_type(attribute)), space = attempt(H5Aget_space(attribute));
    if (H5Sget_simple_extent_npoints(space) != 1) return;
    const std::uint64_t value = program_.size();
    const double real = program_.one_of<double>(
        {0, -1, 1e300, std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()});
    if (H5Tget_class(type) == H5T_INTEGER) H5Awrite(attribute, H5T_NATIVE_UINT64, &value);
    if (H5Tget_class(type) == H5T_FLOAT) H5Awrite(attribute, H5T_NATIVE_DOUBLE, &real);
  }

  void damage_byte() {
    const std::size_t kind = program_.below(8);
    const std::size_t place = program_.number(4) % std::max<std::size_t>(image_.size(), 1);
    if (image_.empty()) return;
    if (kind < 3) {
      image_[place] = static_cast<std::uint8_t>(image_[place] ^ (1U << program_.below(8)));
    } else if (kind < 5) {
      image_[place] = program_.byte();
    } else if (kind == 5 && program_.below(16) == 0) {
      image_.resize(place);
    } else {
      const std::uint64_t value = program_.size();
      const std::size_t width =
          std::min<std::size_t>({std::size_t{1} << program_.below(4), 8, image_.size() - place});
      std::memcpy(image_.data() + place, &value, width);
    }
  }

  /// Gives superblock and object headers the checksums of what they hold now, as someone who forges a file
  /// would.
  void seal_all() {
    if (image_.size() > 48 && image_[8] >= 2) seal(image_, 0, 44);
    for (std::size_t at = 0; at + 32 < image_.size(); ++at) {
      if (std::memcmp(image_.data() + at, "OHDR", 4) != 0) continue;
      const std::uint8_t flags = image_[at + 5];
      std::size_t place = at + 6 + ((flags & 0x20) != 0 ? 16 : 0) + ((flags & 0x10) != 0 ? 4 : 0);
      const std::size_t width = std::size_t{1} << (flags & 3);
      if (place + width > image_.size()) continue;
      std::uint64_t size = 0;
      std::memcpy(&size, image_.data() + place, width);
      place += width;
      if (size < image_.size()) seal(image_, at, place - at + size);
    }
  }

  const SoundFile& sound_;
  EditProgram& program_;
  const std::string& outside_;
  Json config_;
  hid_t file_ = H5I_INVALID_HID;
  bool structure_is_sound_ = true;
  std::vector<std::uint8_t> image_;
};

}  // namespace

SoundFile sound_file(std::vector<std::uint8_t> image) {
  const QuietHdf5 quiet;
  SoundFile result;
  result.image = std::move(image);
  const Hdf5Handle file = open_image(result.image, H5F_LIBVER_EARLIEST);
  // The type that H5Ovisit2 gives bears another name in HDF5 1.12 and later.
  const auto add = [](hid_t root, const char* name, const auto* info, void* to) -> herr_t {
    const Hdf5Handle object = own(H5Oopen(root, name, H5P_DEFAULT), "open an object");
    const std::string path = std::string(name) == "." ? "/" : name;
    static_cast<SoundFile*>(to)->objects.push_back(
        {path, info->type == H5O_TYPE_DATASET, attributes_of(object)});
    return 0;
  };
  check(H5Ovisit2(file, H5_INDEX_NAME, H5_ITER_INC, add, &result, H5O_INFO_BASIC), "visit a file");
  if (H5Aexists(file, "config") > 0) result.config = Json::parse(text_attribute(file, "config"));
  return result;
}

SoundFile written(Hdf5Writer& writer) {
  const testing::TemporaryFolder folder;
  writer.commit(folder / "written.h5");
  std::ifstream stream(folder / "written.h5", std::ios::binary);
  return sound_file({std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()});
}

OutsideFile::OutsideFile() {
  // An HDF5 file for links, and floats for external storage, which begins anywhere in it.
  Tensor<float> numbers({1024});
  std::fill(numbers.begin(), numbers.end(), outside_number);
  Hdf5Writer writer;
  for (const char* path :
       {"x", "parameters/cell/bias", "parameters/cell/input_weights", "parameters/readout/bias"})
    writer.dataset(path, numbers);
  file_.write(written(writer).image);
}

SoundFile in_oldest_format(const SoundFile& sound) {
  const QuietHdf5 quiet;
  const Hdf5Handle from = open_image(sound.image, H5F_LIBVER_EARLIEST);
  const Hdf5Handle to = open_image({}, H5F_LIBVER_EARLIEST);
  for (const SoundFile::Object& object : sound.objects) {
    const char* path = object.path.c_str();
    const Hdf5Handle original = own(H5Oopen(from, path, H5P_DEFAULT), "copy an object");
    Hdf5Handle copy;
    if (object.dataset) {
      const Hdf5Handle type = own(H5Dget_type(original), "copy a dataset");
      const Hdf5Handle space = own(H5Dget_space(original), "copy a dataset");
      copy = own(H5Dcreate2(to, path, type, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT), "copy a dataset");
      std::vector<std::uint8_t> bytes(static_cast<std::size_t>(H5Sget_simple_extent_npoints(space)) *
                                      H5Tget_size(type));
      check(H5Dread(original, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, bytes.data()), "copy a dataset");
      check(H5Dwrite(copy, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, bytes.data()), "copy a dataset");
    } else if (object.path == "/") {
      copy = own(H5Gopen2(to, "/", H5P_DEFAULT), "copy a group");
    } else {
      copy = own(H5Gcreate2(to, path, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT), "copy a group");
    }
    for (const std::string& name : object.attributes) {
      const Hdf5Handle attribute = own(H5Aopen(original, name.c_str(), H5P_DEFAULT), "copy an attribute");
      Hdf5Handle type = own(H5Aget_type(attribute), "copy an attribute");
      const Hdf5Handle space = own(H5Aget_space(attribute), "copy an attribute");
      const bool is_text = H5Tget_class(type) == H5T_STRING;
      std::array<std::uint8_t, 8> number{};
      std::string text;
      if (is_text) {
        text = text_attribute(original, name);
        type = own(H5Tcopy(H5T_C_S1), "copy an attribute");
        check(H5Tset_size(type, H5T_VARIABLE), "copy an attribute");
        check(H5Tset_cset(type, H5T_CSET_UTF8), "copy an attribute");
      } else {
        check(H5Aread(attribute, type, number.data()), "copy an attribute");
      }
      const char* start = text.c_str();
      const Hdf5Handle made =
          own(H5Acreate2(copy, name.c_str(), type, space, H5P_DEFAULT, H5P_DEFAULT), "copy an attribute");
      check(H5Awrite(made, type, is_text ? static_cast<const void*>(&start) : number.data()),
            "copy an attribute");
    }
  }
  return sound_file(image_of(to));
}

std::vector<std::uint8_t> edited(const SoundFile& file, EditProgram& program, const std::string& outside) {
  return Edit(file, program, outside).run();
}

std::vector<std::uint8_t> edited_and_damaged(const SoundFile& file, EditProgram& program,
                                             const std::string& outside) {
  return Edit(file, program, outside).run_and_damage();
}

std::vector<std::uint8_t> unedited(const SoundFile& file, const std::string& outside) {
  EditProgram no_steps({});
  return edited(file, no_steps, outside);
}

}  // namespace orthornn::fuzz
