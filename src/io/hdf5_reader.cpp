#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <set>
#include <system_error>
#include <utility>

#include "io/child_process.hpp"
#include "io/descriptor.hpp"
#include "io/hdf5_reader_parts.hpp"

#ifdef __SANITIZE_ADDRESS__
// HDF5 1.10 leaks memory when an object header has a wrong checksum. The leak is not orthornn's.
extern "C" __attribute__((weak)) const char* __lsan_default_suppressions() { return "leak:libhdf5"; }
extern "C" __attribute__((weak)) const char* __lsan_default_options() { return "print_suppressions=0"; }
#endif

namespace orthornn {
namespace {

// The length of a superblock. HDF5 needs a whole superblock to detect a truncated file.
constexpr std::uintmax_t smallest_file = 48;

// The checks before HDF5 opens the file. Returns its length in bytes.
std::uintmax_t check_file(const std::filesystem::path& file, const std::string& task) {
  const Descriptor descriptor(
      open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));  // a pipe must not block
  if (descriptor < 0 && errno == ENOENT) fail(task, "there is no such file; check the path");
  if (descriptor < 0 && errno == EACCES)
    fail(task, "permission denied; make it readable (chmod u+r), or ask its owner to do so");
  if (descriptor < 0) fail(task, "{}; check the path", std::generic_category().message(errno));
  struct stat status;
  if (fstat(descriptor, &status) != 0) fail(task, "{}", std::generic_category().message(errno));
  if (S_ISDIR(status.st_mode)) fail(task, "it is a folder; give the name of a file in it");
  if (!S_ISREG(status.st_mode)) fail(task, "it is not a regular file; give the name of an HDF5 file");
  if (status.st_size == 0) fail(task, "it is empty; use another copy of it");
  return static_cast<std::uintmax_t>(status.st_size);
}

Hdf5Handle open_file(const std::filesystem::path& file, const std::string& task) {
  const hid_t id = H5Fopen(file.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT);
  if (id >= 0) return Hdf5Handle(id);
  const std::string reason = hdf5_reason();
  const auto says = [&](const char* words) { return reason.find(words) != std::string::npos; };
  if (H5Fis_hdf5(file.c_str()) == 0) fail(task, "it is not an HDF5 file; give the name of one");
  std::error_code ignored;  // then no size is small
  if (says("truncated") || std::filesystem::file_size(file, ignored) < smallest_file)
    fail(task, "it is truncated ({}); use another copy of it", reason);
  if (says("unable to lock") || says("already open"))
    fail(task, "it is open for writing elsewhere ({}); close it there first", reason);
  fail(task, "it is damaged ({}); use another copy of it", reason);
}

// Collects names of links or attributes in a std::vector<std::string>, as HDF5's iterations call it.
template <class Info>
herr_t add_name(hid_t, const char* name, const Info*, void* names) {
  static_cast<std::vector<std::string>*>(names)->emplace_back(name);
  return 0;
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
      fail(what, "the group that holds '{}' is stored through a filter; expected none", name);
    if (check(H5Lexists(found, name.c_str(), H5P_DEFAULT), what) == 0) return {};
    H5L_info_t link;
    check(H5Lget_info(found, name.c_str(), &link, H5P_DEFAULT), what);
    if (link.type != H5L_TYPE_HARD) {
      fail(what,
           "'{}' is a link to somewhere else; expected an object of this file: copy what the link names "
           "into the file",
           name);
    }
    found = own(H5Oopen(found, name.c_str(), H5P_DEFAULT), what);
  }
  return found;
}

Hdf5Handle Hdf5Reader::Impl::open_object(const std::string& object, H5I_type_t kind,
                                         const std::string& what) const {
  Hdf5Handle found = find(object);
  if (found < 0) fail(what, "there is no such object in the file");
  if (kind != H5I_BADID && H5Iget_type(found) != kind)
    fail(what, "it is not a {}", kind == H5I_GROUP ? "group" : "dataset");
  return found;
}

Hdf5Dataset Hdf5Reader::Impl::open_dataset(const std::string& path) const {
  const std::string what = task("dataset", path);
  Hdf5Dataset dataset(open_object(path, H5I_DATASET, what), what);
  auto found = checked_.find(path);
  if (found == checked_.end())
    found = checked_.emplace(path, dataset.check_readable(file_size_, compression_)).first;
  dataset.set_addresses(found->second);
  return dataset;
}

Hdf5Attribute Hdf5Reader::Impl::open_attribute(const std::string& object, const std::string& name,
                                               H5T_class_t kind) const {
  const std::string what = attribute_task(object, name);
  return Hdf5Attribute(open_object(object, H5I_BADID, what), name, kind, what);
}

Hdf5Attribute::Hdf5Attribute(hid_t owner, const std::string& name, H5T_class_t expected,
                             std::string task_of_caller)
    : task(std::move(task_of_caller)) {
  if (check(H5Aexists(owner, name.c_str()), task) == 0) fail(task, "there is no such attribute");
  id = own(H5Aopen(owner, name.c_str(), H5P_DEFAULT), task);
  type = own(H5Aget_type(id), task);
  const bool is_text = expected == H5T_STRING;
  if (H5Tget_class(type) != expected || (!is_text && !is_plain_number(type)))
    fail(task, "expected {}, found {}", class_name(expected), type_name(type));
  if (is_text && check(H5Tis_variable_str(type), task) > 0) {
    fail(task,
         "expected text of a fixed length, found text of variable length (numpy.bytes_ has a fixed one)");
  }
  if (is_text && H5Tget_size(type) > longest_text)
    fail(task, "expected text of at most {} bytes, found {}", longest_text, H5Tget_size(type));
  const Hdf5Handle space = own(H5Aget_space(id), task);
  const hssize_t count = check(H5Sget_simple_extent_npoints(space), task);
  if (count != 1) fail(task, "expected one value, found {}", count);
}

std::int64_t Hdf5Attribute::integer() const {
  if (H5Tget_sign(type) != H5T_SGN_NONE) {
    std::int64_t value = 0;
    check(H5Aread(id, H5T_NATIVE_INT64, &value), task);
    return value;
  }
  std::uint64_t wide = 0;
  check(H5Aread(id, H5T_NATIVE_UINT64, &wide), task);
  if (!std::in_range<std::int64_t>(wide)) fail(task, "{} does not fit in an int64", wide);
  return static_cast<std::int64_t>(wide);
}

Hdf5Reader::Hdf5Reader(const std::filesystem::path& file, Compression compression)
    : impl_(std::make_unique<Impl>()) {
  const QuietHdf5 quiet;
  const std::string task = fmt::format("read '{}'", file.string());
  impl_->file_size_ = check_file(file, task);
  impl_->path_ = file;
  impl_->compression_ = compression;
  // About eight times the time of a read with all checksums. Compressed numbers may be many.
  const int seconds = compression == Compression::allowed ? 10 + static_cast<int>(impl_->file_size_ >> 22)
                                                          : 2 + static_cast<int>(impl_->file_size_ >> 26);
  const std::string end = end_of_child(seconds, [&] {
    impl_->file_ = open_file(file, task);
    read_everything();
  });
  if (!end.empty()) fail(task, "HDF5 does not survive it ({}); use another copy of it", end);
  impl_->file_ = open_file(file, task);
}

// Reads, in the child process, everything that the parent may read from this file. The parent rejects again
// what is rejected here.
void Hdf5Reader::read_everything() const {
  set_thread_count(1);         // a child process lacks the threads of its parent
  std::set<std::string> seen;  // links may form cycles
  std::vector<std::string> paths = {"/"};
  const auto attempt = [](const auto& read) {
    try {
      read();
    } catch (const Error&) {
    }
  };
  const auto read_object = [&](const std::string& path) {
    const std::string what = impl_->task("object", path);
    const Hdf5Handle object = impl_->open_object(path, H5I_BADID, what);
    if (!seen.insert(identity(object)).second) return;
    std::vector<std::string> attributes;
    check(H5Aiterate2(object, H5_INDEX_NAME, H5_ITER_NATIVE, nullptr, &add_name<H5A_info_t>, &attributes),
          what);
    for (const std::string& name : attributes) {
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
  // Unsorted: HDF5 1.10 frees memory that it does not own when it sorts the names of a damaged group.
  check(H5Literate(found, H5_INDEX_NAME, H5_ITER_NATIVE, nullptr, &add_name<H5L_info_t>, &result), what);
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
  const Hdf5Attribute attribute = impl_->open_attribute(object, name, H5T_STRING);
  std::string text(H5Tget_size(attribute.type), '\0');
  check(H5Aread(attribute.id, attribute.type, text.data()), attribute.task);
  return without_padding(text, H5Tget_strpad(attribute.type));
}

std::int64_t Hdf5Reader::int_attribute(const std::string& object, const std::string& name) const {
  const QuietHdf5 quiet;
  return impl_->open_attribute(object, name, H5T_INTEGER).integer();
}

double Hdf5Reader::double_attribute(const std::string& object, const std::string& name) const {
  const QuietHdf5 quiet;
  const Hdf5Attribute attribute = impl_->open_attribute(object, name, H5T_FLOAT);
  double value = 0;
  check(H5Aread(attribute.id, H5T_NATIVE_DOUBLE, &value), attribute.task);
  return value;
}

}  // namespace orthornn
