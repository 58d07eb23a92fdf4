#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <set>
#include <system_error>
#include <utility>

#include "io/child_process.hpp"
#include "io/hdf5_reader_parts.hpp"

#ifdef __SANITIZE_ADDRESS__
// HDF5 1.10 leaks memory when an object header has a wrong checksum. The leak is not orthornn's.
extern "C" __attribute__((weak)) const char* __lsan_default_suppressions() { return "leak:libhdf5"; }
extern "C" __attribute__((weak)) const char* __lsan_default_options() { return "print_suppressions=0"; }
#endif

namespace orthornn {

using detail::check;
using detail::class_name;
using detail::Hdf5Handle;
using detail::is_plain_number;
using detail::own;
using detail::QuietHdf5;
using detail::type_name;

namespace {

// The length of a superblock. HDF5 needs a whole superblock to detect a truncated file.
constexpr std::uintmax_t smallest_file = 48;

[[noreturn]] void refuse(const std::filesystem::path& file, const std::string& why) {
  throw FileError(fmt::format("cannot read '{}': {}", file.string(), why));
}

// The checks before HDF5 opens the file. Returns its length in bytes.
std::uintmax_t check_readable(const std::filesystem::path& file) {
  const int descriptor = open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // a pipe must not block
  if (descriptor < 0 && errno == ENOENT) refuse(file, "there is no such file; check the path");
  if (descriptor < 0 && errno == EACCES)
    refuse(file, "permission denied; make it readable (chmod u+r), or ask its owner to do so");
  if (descriptor < 0) refuse(file, fmt::format("{}; check the path", std::generic_category().message(errno)));
  struct stat status;
  const bool known = fstat(descriptor, &status) == 0;
  const int error = errno;
  close(descriptor);
  if (!known) refuse(file, std::generic_category().message(error));
  if (S_ISDIR(status.st_mode)) refuse(file, "it is a folder; give the name of a file in it");
  if (!S_ISREG(status.st_mode)) refuse(file, "it is not a regular file; give the name of an HDF5 file");
  if (status.st_size == 0) refuse(file, "it is empty; use another copy of it");
  return static_cast<std::uintmax_t>(status.st_size);
}

Hdf5Handle open_file(const std::filesystem::path& file) {
  const hid_t id = H5Fopen(file.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT);
  if (id >= 0) return Hdf5Handle(id);
  const std::string reason = detail::hdf5_reason();
  const auto says = [&](const char* words) { return reason.find(words) != std::string::npos; };
  if (H5Fis_hdf5(file.c_str()) == 0) refuse(file, "it is not an HDF5 file; give the name of one");
  std::error_code ignored;  // then no size is small
  if (says("truncated") || std::filesystem::file_size(file, ignored) < smallest_file) {
    refuse(file, fmt::format("it is truncated ({}); use another copy of it", reason));
  }
  if (says("unable to lock") || says("already open")) {
    refuse(file, fmt::format("it is open for writing elsewhere ({}); close it there first", reason));
  }
  refuse(file, fmt::format("it is damaged ({}); use another copy of it", reason));
}

// The text of a fixed-length string without its padding.
std::string without_padding(std::string text, H5T_str_t padding) {
  if (padding == H5T_STR_NULLTERM) return text.substr(0, text.find('\0'));
  const char filler = padding == H5T_STR_SPACEPAD ? ' ' : '\0';
  return text.substr(0, text.find_last_not_of(filler) + 1);
}

// Bytes that identify an object of the file: its address.
std::string identity(hid_t object) {
#if H5_VERSION_GE(1, 12, 0)
  H5O_info2_t info{};
  check(H5Oget_info3(object, &info, H5O_INFO_BASIC), "tell the objects of a file apart");
  return std::string(reinterpret_cast<const char*>(&info.token), sizeof info.token);
#else
  H5O_info_t info{};
  check(H5Oget_info2(object, &info, H5O_INFO_BASIC), "tell the objects of a file apart");
  return std::string(reinterpret_cast<const char*>(&info.addr), sizeof info.addr);
#endif
}

std::vector<std::string> components(const std::string& path) {
  std::vector<std::string> names;
  std::size_t begin = 0;
  while (begin < path.size()) {
    const std::size_t end = std::min(path.find('/', begin), path.size());
    if (end > begin) names.push_back(path.substr(begin, end - begin));
    begin = end + 1;
  }
  return names;
}

}  // namespace

Hdf5Handle Hdf5Reader::Impl::find(const std::string& object) const {
  const std::string what = task("object", object);
  Hdf5Handle found = own(H5Gopen2(file_, "/", H5P_DEFAULT), what);
  for (const std::string& name : components(object)) {
    if (H5Iget_type(found) != H5I_GROUP) return {};
    // The links of a group can be compressed too.
    const Hdf5Handle properties = own(H5Gget_create_plist(found), what);
    if (check(H5Pget_nfilters(properties), what) > 0)
      fail(what, fmt::format("the group that holds '{}' is stored through a filter; expected none", name));
    if (check(H5Lexists(found, name.c_str(), H5P_DEFAULT), what) == 0) return {};
    H5L_info_t link;
    check(H5Lget_info(found, name.c_str(), &link, H5P_DEFAULT), what);
    if (link.type != H5L_TYPE_HARD) {
      fail(what, fmt::format("'{}' is a link to somewhere else; expected an object of this file: copy what "
                             "the link names into the file",
                             name));
    }
    found = own(H5Oopen(found, name.c_str(), H5P_DEFAULT), what);
  }
  return found;
}

Hdf5Handle Hdf5Reader::Impl::open_object(const std::string& object, H5I_type_t kind,
                                         const std::string& what) const {
  Hdf5Handle found = find(object);
  if (found < 0) fail(what, "there is no such object in the file");
  if (kind != H5I_BADID && H5Iget_type(found) != kind) {
    fail(what, kind == H5I_GROUP ? "it is not a group" : "it is not a dataset");
  }
  return found;
}

Hdf5Handle Hdf5Reader::Impl::open_dataset(const std::string& path, const std::string& what) const {
  Hdf5Handle dataset = open_object(path, H5I_DATASET, what);
  if (checked_.contains(path)) return dataset;
  // The order matters: for the extent of a virtual dataset, HDF5 opens other files.
  check_layout(dataset, what);
  const Hdf5Handle type = own(H5Dget_type(dataset), what);
  if (!is_plain_number(type)) {
    fail(what, fmt::format("expected integers of 8 to 64 bits or IEEE numbers of 32 or 64, found {}; convert "
                           "it before it is written",
                           type_name(type)));
  }
  check_size(dataset, what);
  checked_.insert(path);
  return dataset;
}

Hdf5Handle Hdf5Reader::Impl::open_attribute(hid_t owner, const std::string& name, H5T_class_t kind,
                                            const std::string& what) const {
  if (check(H5Aexists(owner, name.c_str()), what) == 0) fail(what, "there is no such attribute");
  Hdf5Handle attribute = own(H5Aopen(owner, name.c_str(), H5P_DEFAULT), what);
  const Hdf5Handle type = own(H5Aget_type(attribute), what);
  if (H5Tget_class(type) != kind || (kind != H5T_STRING && !is_plain_number(type)))
    fail(what, fmt::format("expected {}, found {}", class_name(kind), type_name(type)));
  if (kind == H5T_STRING && check(H5Tis_variable_str(type), what) > 0)
    fail(what,
         "expected text of a fixed length, found text of variable length (numpy.bytes_ has a fixed one)");
  if (kind == H5T_STRING && H5Tget_size(type) > detail::longest_text) {
    fail(what,
         fmt::format("expected text of at most {} bytes, found {}", detail::longest_text, H5Tget_size(type)));
  }
  const Hdf5Handle space = own(H5Aget_space(attribute), what);
  const hssize_t count = check(H5Sget_simple_extent_npoints(space), what);
  if (count != 1) fail(what, fmt::format("expected one value, found {}", count));
  return attribute;
}

std::vector<std::string> Hdf5Reader::Impl::attribute_names(const std::string& object) const {
  const std::string what = task("attributes of", object);
  const Hdf5Handle owner = open_object(object, H5I_BADID, what);
  std::vector<std::string> result;
  const auto add_name = [](hid_t, const char* name, const H5A_info_t*, void* names) -> herr_t {
    static_cast<std::vector<std::string>*>(names)->emplace_back(name);
    return 0;
  };
  check(H5Aiterate2(owner, H5_INDEX_NAME, H5_ITER_NATIVE, nullptr, add_name, &result), what);
  return result;
}

std::int64_t Hdf5Reader::Impl::read_integer(hid_t attribute, const std::string& what) const {
  const Hdf5Handle type = own(H5Aget_type(attribute), what);
  if (H5Tget_sign(type) != H5T_SGN_NONE) {
    std::int64_t value = 0;
    check(H5Aread(attribute, H5T_NATIVE_INT64, &value), what);
    return value;
  }
  std::uint64_t wide = 0;
  check(H5Aread(attribute, H5T_NATIVE_UINT64, &wide), what);
  if (!std::in_range<std::int64_t>(wide)) fail(what, fmt::format("{} does not fit in an int64", wide));
  return static_cast<std::int64_t>(wide);
}

Hdf5Reader::Hdf5Reader(const std::filesystem::path& file) : impl_(std::make_unique<Impl>()) {
  const QuietHdf5 quiet;
  impl_->file_size_ = check_readable(file);
  impl_->path_ = file;
  // About eight times the time of a read with all checksums.
  const int seconds = 2 + static_cast<int>(impl_->file_size_ >> 26);
  const std::string end = detail::end_of_child(seconds, [&] {
    impl_->file_ = open_file(file);
    read_everything();
  });
  if (!end.empty()) refuse(file, fmt::format("HDF5 does not survive it ({}); use another copy of it", end));
  impl_->file_ = open_file(file);
}

// Reads, in the child process, everything that the parent may read from this file. The parent rejects again
// what is rejected here.
void Hdf5Reader::read_everything() const {
  std::set<std::string> seen;  // links may form cycles
  std::vector<std::string> paths = {"/"};
  const auto attempt = [](const auto& read) {
    try {
      read();
    } catch (const Error&) {
    }
  };
  const auto read_object = [&](const std::string& path) {
    const Hdf5Handle object = impl_->open_object(path, H5I_BADID, impl_->task("object", path));
    if (!seen.insert(identity(object)).second) return;
    for (const std::string& name : impl_->attribute_names(path)) {
      attempt([&] { string_attribute(path, name); });
      attempt([&] { int_attribute(path, name); });
      attempt([&] { double_attribute(path, name); });
    }
    if (H5Iget_type(object) == H5I_DATASET) {
      // Of larger datasets, which the parent may not read at all, only the chunk index is read.
      constexpr Index largest = Index{1} << 24;
      if (shape(path).count() > largest) return;
      is_integer(path) ? read<std::int64_t>(path).size() : read<double>(path).size();
    } else {
      for (const std::string& name : names(path)) paths.push_back(path + "/" + name);
    }
  };
  while (!paths.empty()) {
    const std::string path = std::move(paths.back());
    paths.pop_back();
    attempt([&] { read_object(path); });
  }
}

Hdf5Reader::~Hdf5Reader() = default;

const std::filesystem::path& Hdf5Reader::file() const { return impl_->path_; }

std::uintmax_t Hdf5Reader::file_size() const { return impl_->file_size_; }

bool Hdf5Reader::has(const std::string& path) const {
  const QuietHdf5 quiet;
  return impl_->find(path) >= 0;
}

std::vector<std::string> Hdf5Reader::names(const std::string& group) const {
  const QuietHdf5 quiet;
  const std::string what = impl_->task("group", group);
  const Hdf5Handle found = impl_->open_object(group, H5I_GROUP, what);
  std::vector<std::string> result;
  const auto add_name = [](hid_t, const char* name, const H5L_info_t*, void* names) -> herr_t {
    static_cast<std::vector<std::string>*>(names)->emplace_back(name);
    return 0;
  };
  // Unsorted: HDF5 1.10 frees memory that it does not own when it sorts the names of a damaged group.
  check(H5Literate(found, H5_INDEX_NAME, H5_ITER_NATIVE, nullptr, add_name, &result), what);
  std::sort(result.begin(), result.end());
  return result;
}

bool Hdf5Reader::has_attribute(const std::string& object, const std::string& name) const {
  const QuietHdf5 quiet;
  const std::string what = impl_->attribute_task(object, name);
  const Hdf5Handle owner = impl_->open_object(object, H5I_BADID, what);
  return check(H5Aexists(owner, name.c_str()), what) > 0;
}

std::string Hdf5Reader::string_attribute(const std::string& object, const std::string& name) const {
  const QuietHdf5 quiet;
  const std::string what = impl_->attribute_task(object, name);
  const Hdf5Handle attribute = impl_->open_attribute(object, name, H5T_STRING, what);
  const Hdf5Handle type = own(H5Aget_type(attribute), what);
  std::string text(H5Tget_size(type), '\0');
  check(H5Aread(attribute, type, text.data()), what);
  return without_padding(text, H5Tget_strpad(type));
}

std::int64_t Hdf5Reader::int_attribute(const std::string& object, const std::string& name) const {
  const QuietHdf5 quiet;
  const std::string what = impl_->attribute_task(object, name);
  const Hdf5Handle attribute = impl_->open_attribute(object, name, H5T_INTEGER, what);
  return impl_->read_integer(attribute, what);
}

double Hdf5Reader::double_attribute(const std::string& object, const std::string& name) const {
  const QuietHdf5 quiet;
  const std::string what = impl_->attribute_task(object, name);
  const Hdf5Handle attribute = impl_->open_attribute(object, name, H5T_FLOAT, what);
  double value = 0;
  check(H5Aread(attribute, H5T_NATIVE_DOUBLE, &value), what);
  return value;
}

}  // namespace orthornn
