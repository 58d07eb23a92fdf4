#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <fstream>
#include <memory>
#include <optional>
#include <set>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <utility>

#include "io/expansion.hpp"
#include "io/npz_file.hpp"
#include "io/open_zip.hpp"
#include "io/zip_place.hpp"
#include "orthornn/core/error.hpp"

namespace orthornn {
namespace {

using Bytes = std::vector<std::uint8_t>;
using Archive = std::unique_ptr<zip_t, CloseZip>;

[[noreturn]] void refuse_array(const std::string& name, const std::string& why) {
  throw FileError(fmt::format("{}: {}", name, why));
}

/// A file of an archive, read from its begin to its end.
class Member {
 public:
  Member(std::string name, zip_t* archive, zip_uint64_t number, std::uint64_t archive_bytes)
      : name_(std::move(name)) {
    zip_stat_t properties;
    zip_stat_init(&properties);
    if (zip_stat_index(archive, number, 0, &properties) != 0) refuse_array(name_, zip_strerror(archive));
    // An archive says of its members what it will.
    compressed_ = std::min<std::uint64_t>(properties.comp_size, archive_bytes);
    size_ = properties.size;
    if (expands_too_far(size_, compressed_)) refuse_bomb();
    member_.reset(zip_fopen_index(archive, number, 0));
    if (member_ == nullptr)
      refuse_array(name_, fmt::format("it cannot be read ({}); write it again", zip_strerror(archive)));
  }

  const std::string& name() const { return name_; }
  /// Bytes that it has, as the archive says, after those that were read.
  std::uint64_t rest() const { return size_ - std::min(size_, all_); }
  /// Reads up to `count` bytes, fewer only at the end. Returns how many.
  std::size_t read(std::uint8_t* to, std::size_t count) {
    std::size_t done = 0;
    while (done < count) {
      const zip_int64_t more = zip_fread(member_.get(), to + done, count - done);
      if (more < 0) {
        refuse_array(name_, fmt::format("it is damaged ({}); use another copy of the file",
                                        zip_file_strerror(member_.get())));
      }
      if (more == 0) break;
      done += static_cast<std::size_t>(more);
    }
    all_ += done;
    if (expands_too_far(all_, compressed_)) refuse_bomb();
    return done;
  }

 private:
  [[noreturn]] void refuse_bomb() const {
    refuse_array(name_,
                 fmt::format("it is more than {} times as long as in the archive, which is taken for a "
                             "zip bomb; if it is none, write it without compression (numpy.savez)",
                             largest_expansion));
  }

  std::string name_;
  std::unique_ptr<zip_file_t, CloseZip> member_;
  std::uint64_t compressed_ = 0, size_ = 0, all_ = 0;
};

/// As much of a text as a message shows.
std::string_view shown(std::string_view text) { return text.substr(0, 100); }

void skip_spaces_of(std::string_view& text) {
  text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
}

/// What follows "'key':" in a header, which is the text of a dictionary of Python, and may have its keys in
/// any order. Throws FileError for a header without the key.
std::string_view value_in(const std::string& name, std::string_view header, const char* key) {
  for (const char quote : {'\'', '"'}) {
    const std::string quoted = fmt::format("{0}{1}{0}", quote, key);
    for (std::size_t at = header.find(quoted); at != std::string_view::npos;
         at = header.find(quoted, at + 1)) {
      std::string_view rest = header.substr(at + quoted.size());
      skip_spaces_of(rest);
      if (!rest.starts_with(':')) continue;  // a text that is no key
      rest.remove_prefix(1);
      skip_spaces_of(rest);
      return rest;
    }
  }
  refuse_array(name, fmt::format("its header has no '{}'; expected it as NumPy writes it", key));
}

/// The text between `before` and the next `after`; no value for a text that has not both.
std::optional<std::string_view> between(std::string_view text, char before, char after) {
  const std::size_t end = text.find(after, 1);
  if (!text.starts_with(before) || end == std::string_view::npos) return std::nullopt;
  return text.substr(1, end - 1);
}

/// The shape of a header: "(3, 4)" or "(3,)". Python 2 wrote "(3L, 4L)".
Shape parse_shape(const std::string& name, std::string_view header) {
  const std::string_view value = value_in(name, header, "shape");
  const std::optional<std::string_view> inner = between(value, '(', ')');
  if (!inner) {
    refuse_array(name, fmt::format("its shape is {}; expected whole numbers with commas between, in round "
                                   "brackets",
                                   shown(value.substr(0, value.find_first_of(",}\n")))));
  }
  std::string_view text = *inner;
  const std::string_view whole = shown(text);
  const auto skip_spaces = [&] { skip_spaces_of(text); };
  Shape shape;
  Index count = 1;
  bool has_comma = false;
  for (skip_spaces(); !text.empty(); skip_spaces()) {
    const std::size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
    Index size = 0;
    bool fits = digits <= 15;
    for (std::size_t i = 0; fits && i < digits; ++i) size = 10 * size + (text[i] - '0');
    if (shape.rank() == Shape::max_rank)
      refuse_array(name, fmt::format("its shape ({}) has more than {} axes; expected at most so many", whole,
                                     Shape::max_rank));
    fits = fits && !__builtin_mul_overflow(count, std::max<Index>(size, 1), &count);
    if (!fits) refuse_array(name, fmt::format("its shape ({}) is larger than any memory", whole));
    shape.append(size);
    text.remove_prefix(digits);
    if (text.starts_with('L')) text.remove_prefix(1);
    skip_spaces();
    if (digits == 0 || (!text.empty() && text[0] != ',')) {
      refuse_array(name, fmt::format("its shape is ({}); expected whole numbers with commas between", whole));
    }
    has_comma = has_comma || !text.empty();
    if (!text.empty()) text.remove_prefix(1);
  }
  if (shape.rank() == 1 && !has_comma) {
    refuse_array(name, fmt::format("its shape is ({0}), which is a number and no shape; expected a comma "
                                   "behind it: ({0},)",
                                   whole));
  }
  return shape;
}

/// The number of T at these bytes, in the byte order of the file.
template <class T>
T number_at(const std::uint8_t* bytes, bool swapped) {
  std::array<std::uint8_t, sizeof(T)> copied;
  std::memcpy(copied.data(), bytes, sizeof(T));
  if (swapped) std::ranges::reverse(copied);
  return std::bit_cast<T>(copied);
}

template <class From, class To>
void convert_numbers(const std::uint8_t* bytes, bool swapped, std::span<To> to) {
  for (std::size_t i = 0; i < to.size(); ++i)
    to[i] = static_cast<To>(number_at<From>(bytes + i * sizeof(From), swapped));
}

/// What comes before the numbers of an .npy file.
struct Header {
  Shape shape = {};
  std::string kind = {};  ///< Type without its byte order, such as "f4".
  bool swapped = false;   ///< Whether the byte order is not that of this machine.
  bool is_integer() const { return kind[0] != 'f'; }
};

NumpyArray array_of(const Header& header) {
  return {.shape = header.shape, .is_integer = header.is_integer(), .kind = header.kind};
}

/// Calls visit(x) with a number x of the type that the numbers of the array have.
template <class Visit>
auto with_type(const std::string& kind, const Visit& visit) {
  if (kind == "f4") return visit(float{});
  if (kind == "f8") return visit(double{});
  if (kind == "b1" || kind == "u1") return visit(std::uint8_t{});
  if (kind == "i1") return visit(std::int8_t{});
  if (kind == "i2") return visit(std::int16_t{});
  if (kind == "u2") return visit(std::uint16_t{});
  if (kind == "i4") return visit(std::int32_t{});
  if (kind == "u4") return visit(std::uint32_t{});
  if (kind == "u8") return visit(std::uint64_t{});
  return visit(std::int64_t{});
}

/// The type without its byte order.
std::string kind_of(const std::string& name, const std::string& type) {
  if (type.size() < 2)
    refuse_array(name, "its type is not a plain one; expected integers or floating-point numbers");
  std::string kind = type.substr(1);
  constexpr std::array<std::string_view, 11> known = {"f4", "f8", "b1", "u1", "i1", "i2",
                                                      "u2", "i4", "u4", "i8", "u8"};
  if (kind == "O") {
    refuse_array(
        name,
        "it has Python objects (a pickle), which are never read; expected integers or floating-point "
        "numbers");
  }
  if (std::ranges::find(known, kind) == known.end())
    refuse_array(
        name,
        fmt::format("its type is '{}'; expected integers of 8 to 64 bits or floating-point numbers of 32 "
                    "or 64 bits: convert it before it is written (astype)",
                    type.substr(0, 20)));
  return kind;
}

/// Reads the header. `read` has the arguments and the result of Member::read.
template <class Read>
Header read_header(const std::string& name, const Read& read) {
  constexpr std::string_view magic = "\x93NUMPY";
  constexpr std::size_t longest_header = 65536;
  std::array<std::uint8_t, 12> begin{};
  const std::size_t narrow = magic.size() + 4;  // a magic, a version of two bytes, a length of two or four
  if (read(begin.data(), narrow) < narrow ||
      !std::equal(magic.begin(), magic.end(), begin.begin(),
                  [](char a, std::uint8_t b) { return static_cast<std::uint8_t>(a) == b; }))
    refuse_array(name, "it is no array of NumPy (.npy)");
  if (begin[6] < 1 || begin[6] > 3)
    refuse_array(name, fmt::format("it has version {} of NumPy's format; expected 1, 2 or 3", begin[6]));
  std::size_t length = begin[8] + 256U * begin[9];
  if (begin[6] >= 2) {
    if (read(begin.data() + narrow, 2) < 2) refuse_array(name, "its header is cut off");
    length = number_at<std::uint32_t>(&begin[8], std::endian::native == std::endian::big);
  }
  std::string text(std::min(length, longest_header), ' ');
  if (length > longest_header || read(reinterpret_cast<std::uint8_t*>(text.data()), length) < length)
    refuse_array(name, "its header is cut off");
  std::string_view order = value_in(name, text, "fortran_order");
  order = order.substr(0, order.find_first_of(",}\n "));
  if (order == "True")
    refuse_array(name, "it is in Fortran order; expected C order, as numpy.ascontiguousarray makes it");
  if (order != "False")
    refuse_array(name, fmt::format("its 'fortran_order' is {}; expected False", shown(order)));
  const std::string_view descr = value_in(name, text, "descr");
  // No text between quotes is a list of fields.
  const std::string type(between(descr, '\'', '\'').value_or(between(descr, '"', '"').value_or("")));
  Header header{.shape = parse_shape(name, text), .kind = kind_of(name, type)};
  header.swapped = (type[0] == '>') != (std::endian::native == std::endian::big) && type[0] != '|';
  return header;
}

/// Reads the numbers after a header, up to `most` at a time, and gives them to `take`.
template <class To, class Read, class Take>
void read_numbers(const std::string& name, const Header& header, Index most, const Read& read,
                  const Take& take) {
  with_type(header.kind, [&]<class From>(From) {
    const auto refuse = [&](std::size_t bytes) {
      refuse_array(name, fmt::format("its shape {} of {} bytes each does not fit the {} bytes that it has",
                                     to_string(header.shape), sizeof(From), bytes));
    };
    const auto count = static_cast<std::size_t>(header.shape.count());
    const std::size_t piece = std::min(count, static_cast<std::size_t>(most));
    Bytes bytes(piece * sizeof(From) + 1);
    std::vector<To> numbers(piece);
    std::size_t stored = 0;
    for (std::size_t first = 0; first < count; first += piece) {
      const std::span<To> to = std::span(numbers).first(std::min(piece, count - first));
      const std::size_t found = read(bytes.data(), to.size() * sizeof(From));
      stored += found;
      if (found < to.size() * sizeof(From)) refuse(stored);
      convert_numbers<From>(bytes.data(), header.swapped, to);
      if constexpr (std::is_same_v<From, std::uint64_t> && std::is_same_v<To, std::int64_t>) {
        if (std::ranges::any_of(to, [](std::int64_t x) { return x < 0; }))
          refuse_array(name, "it has integers of 2^63 or more; expected smaller ones");
      }
      take(std::span<const To>(to));
    }
    // The end must be read too: the archive's checksum is compared there.
    if (read(bytes.data(), 1) > 0) refuse(stored + 1);
  });
}

/// Throws FileError unless the numbers after a header take so many bytes.
void check_bytes(const std::string& name, const Header& header, std::uint64_t bytes) {
  const auto size = static_cast<std::uint64_t>(with_type(header.kind, [](auto x) { return sizeof(x); }));
  if (bytes % size == 0 && std::cmp_equal(bytes / size, header.shape.count())) return;
  refuse_array(name, fmt::format("its shape {} of {} bytes each does not fit the {} bytes that it has",
                                 to_string(header.shape), size, bytes));
}

/// Numbers that are converted at a time.
constexpr Index piece_of_numbers = Index{1} << 18;

Archive open_archive(const std::filesystem::path& file) {
  std::string reason;
  Archive archive = open_zip(file, reason);
  if (archive == nullptr)
    refuse_array(file.string(), fmt::format("it is no .npz file that can be read ({})", reason));
  return archive;
}

Member open_member(const std::filesystem::path& file, zip_t* archive, const std::string& array,
                   zip_int64_t number) {
  std::error_code unknown;
  const std::uintmax_t bytes = std::filesystem::file_size(file, unknown);
  return Member(fmt::format("{} ({})", file.string(), array), archive, static_cast<zip_uint64_t>(number),
                unknown ? 0 : bytes);
}

/// Calls visit(name, number) for each array that the archive has, by its name without ".npy".
template <class Visit>
void visit_names(const std::filesystem::path& file, zip_t* archive, const Visit& visit) {
  constexpr zip_int64_t most_members = 1000;
  const zip_int64_t count = zip_get_num_entries(archive, 0);
  if (count > most_members)
    refuse_array(file.string(), fmt::format("it has {} members; expected at most {}", count, most_members));
  for (zip_int64_t i = 0; i < count; ++i) {
    const char* found = zip_get_name(archive, static_cast<zip_uint64_t>(i), ZIP_FL_ENC_GUESS);
    std::string name = found == nullptr ? "" : found;
    if (!name.ends_with(".npy")) continue;
    name.resize(name.size() - 4);
    visit(name, i);
  }
}

/// Calls visit(name, member) for each array of these names that the file has.
template <class Visit>
void visit_arrays(const std::filesystem::path& file, const std::vector<std::string>& names,
                  const Visit& visit) {
  const Archive archive = open_archive(file);
  std::set<std::string> found_names;
  visit_names(file, archive.get(), [&](const std::string& name, zip_int64_t i) {
    if (std::ranges::find(names, name) == names.end()) return;
    Member member = open_member(file, archive.get(), name, i);
    if (!found_names.insert(name).second)
      refuse_array(member.name(), "the archive has it twice; expected one of each name");
    visit(name, std::move(member));
  });
}

/// An .npy file, read from its begin to its end.
class ArrayStream {
 public:
  explicit ArrayStream(const std::filesystem::path& file)
      : name_(file.string()), stream_(file, std::ios::binary) {
    if (!stream_) refuse_array(name_, "it cannot be opened");
  }
  const std::string& name() const { return name_; }
  std::size_t read(std::uint8_t* to, std::size_t count) {
    stream_.read(reinterpret_cast<char*>(to), static_cast<std::streamsize>(count));
    all_ += static_cast<std::uint64_t>(stream_.gcount());
    return static_cast<std::size_t>(stream_.gcount());
  }
  Header header() {
    return read_header(name_, [this](std::uint8_t* to, std::size_t count) { return read(to, count); });
  }
  /// Bytes that were read.
  std::uint64_t all() const { return all_; }

 private:
  std::string name_;
  std::ifstream stream_;
  std::uint64_t all_ = 0;
};

}  // namespace

std::vector<std::string> names_in_npz(const std::filesystem::path& file) {
  const Archive archive = open_archive(file);
  std::set<std::string> names;
  visit_names(file, archive.get(), [&](const std::string& name, zip_int64_t) { names.insert(name); });
  return {names.begin(), names.end()};
}

std::map<std::string, NumpyArray> list_npz(const std::filesystem::path& file,
                                           const std::vector<std::string>& names) {
  std::map<std::string, NumpyArray> arrays;
  visit_arrays(file, names, [&](const std::string& name, Member member) {
    const Header header = read_header(
        member.name(), [&](std::uint8_t* to, std::size_t count) { return member.read(to, count); });
    check_bytes(member.name(), header, member.rest());
    arrays.insert_or_assign(name, array_of(header));
  });
  return arrays;
}

template <class T>
void read_npz_in_pieces(const std::filesystem::path& file, const std::string& name,
                        const std::function<void(std::span<const T>)>& take) {
  const Archive archive = open_archive(file);
  const zip_int64_t number = zip_name_locate(archive.get(), (name + ".npy").c_str(), 0);
  if (number < 0) refuse_array(file.string(), fmt::format("it has no array '{}'", name));
  Member member = open_member(file, archive.get(), name, number);
  const auto read = [&](std::uint8_t* to, std::size_t count) { return member.read(to, count); };
  const Header header = read_header(member.name(), read);
  read_numbers<T>(member.name(), header, piece_of_numbers, read, take);
}

template void read_npz_in_pieces(const std::filesystem::path&, const std::string&,
                                 const std::function<void(std::span<const float>)>&);
template void read_npz_in_pieces(const std::filesystem::path&, const std::string&,
                                 const std::function<void(std::span<const double>)>&);
template void read_npz_in_pieces(const std::filesystem::path&, const std::string&,
                                 const std::function<void(std::span<const std::int64_t>)>&);
template void read_npz_in_pieces(const std::filesystem::path&, const std::string&,
                                 const std::function<void(std::span<const std::uint8_t>)>&);

NumpyArray npy_header(const std::filesystem::path& file) {
  ArrayStream stream(file);
  const Header header = stream.header();
  check_bytes(stream.name(), header, std::filesystem::file_size(file) - stream.all());
  return array_of(header);
}

template <class T>
void read_npy_in_pieces(const std::filesystem::path& file,
                        const std::function<void(std::span<const T>)>& take) {
  ArrayStream stream(file);
  const Header header = stream.header();
  const auto read = [&](std::uint8_t* to, std::size_t count) { return stream.read(to, count); };
  read_numbers<T>(stream.name(), header, piece_of_numbers, read, take);
}

template void read_npy_in_pieces(const std::filesystem::path&,
                                 const std::function<void(std::span<const float>)>&);
template void read_npy_in_pieces(const std::filesystem::path&,
                                 const std::function<void(std::span<const std::uint8_t>)>&);

template <class T>
std::optional<std::uint64_t> place_in_npz(const std::filesystem::path& file, const std::string& name) {
  const std::string array = fmt::format("{} ({})", file.string(), name);
  const Archive archive = open_archive(file);
  const zip_int64_t number = zip_name_locate(archive.get(), (name + ".npy").c_str(), 0);
  zip_stat_t properties;
  zip_stat_init(&properties);
  if (number < 0 || zip_stat_index(archive.get(), static_cast<zip_uint64_t>(number), 0, &properties) != 0 ||
      properties.comp_method != ZIP_CM_STORE || properties.encryption_method != ZIP_EM_NONE)
    return std::nullopt;
  std::ifstream stream(file, std::ios::binary);
  const std::optional<std::uint64_t> begin =
      place_in_zip(stream, static_cast<std::uint64_t>(number), name + ".npy");
  if (!begin) return std::nullopt;
  // An archive says of its members what it will.
  const std::uint64_t all = std::filesystem::file_size(file);
  if (properties.comp_size != properties.size || *begin > all || properties.size > all - *begin) {
    refuse_array(array, fmt::format("it is cut short: {} bytes from byte {} on are expected, and the file "
                                    "has {} bytes; use another copy of the file",
                                    properties.size, *begin, all));
  }
  if (!stream.seekg(static_cast<std::streamoff>(*begin))) return std::nullopt;
  std::uint64_t done = 0;
  const auto read = [&](std::uint8_t* to, std::size_t count) {
    count = static_cast<std::size_t>(std::min<std::uint64_t>(count, properties.size - done));
    stream.read(reinterpret_cast<char*>(to), static_cast<std::streamsize>(count));
    done += static_cast<std::uint64_t>(stream.gcount());
    return static_cast<std::size_t>(stream.gcount());
  };
  const Header header = read_header(array, read);
  const char* own_kind = std::is_same_v<T, float> ? "f4" : "i4";
  const bool fits = properties.size - done == header.shape.bytes(sizeof(T));
  if (header.kind != own_kind || header.swapped || !fits) return std::nullopt;
  return *begin + done;
}

template std::optional<std::uint64_t> place_in_npz<float>(const std::filesystem::path&, const std::string&);
template std::optional<std::uint64_t> place_in_npz<std::int32_t>(const std::filesystem::path&,
                                                                 const std::string&);

std::string npz_format(const std::filesystem::path& file) {
  const Archive archive = open_archive(file);
  int length = 0;
  const char* comment = zip_get_archive_comment(archive.get(), &length, ZIP_FL_ENC_RAW);
  return comment == nullptr ? "" : std::string(comment, static_cast<std::size_t>(length));
}

}  // namespace orthornn
