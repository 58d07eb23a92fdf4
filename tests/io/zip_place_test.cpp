// Where the data of a zip archive's member begin.

#include "io/zip_place.hpp"

#include <fstream>
#include <initializer_list>
#include <sstream>
#include <string>
#include <utility>

#include "support/catch.hpp"

using namespace orthornn;

namespace {

std::string number(std::uint64_t value, int width) {
  std::string bytes;
  for (int i = 0; i < width; ++i) bytes += static_cast<char>(value >> (8 * i));
  return bytes;
}

/// An archive with the members a and bc, of which one has an extra field, and a comment. With `is_long` its
/// directory has the 64-bit form, as archives of 4 GiB and more have it.
std::string archive_of(bool is_long, int method = 0, int flags = 0) {
  std::string archive, directory;
  for (const auto& [name, data] : {std::pair<std::string, std::string>{"a", "first"}, {"bc", "second"}}) {
    const std::string extra = name == "a" ? "" : number(9, 2) + number(3, 2) + "xyz";
    const std::string size = number(data.size(), 4), none = number(0xFFFFFFFF, 4);
    const std::string of_sizes = number(method, 2) + number(0, 8);  // time and checksum
    const std::uint64_t place = archive.size();
    archive += "PK\x03\x04" + number(20, 2) + number(flags, 2) + of_sizes + size + size +
               number(name.size(), 2) + number(extra.size(), 2) + name + extra + data;
    const std::string large = number(7, 2) + number(0, 2) + number(1, 2) + number(24, 2) +
                              number(data.size(), 8) + number(data.size(), 8) + number(place, 8);
    const std::string of_entry = is_long ? large : "";
    directory += "PK\x01\x02" + number(20, 2) + number(20, 2) + number(flags, 2) + of_sizes +
                 (is_long ? none + none : size + size) + number(name.size(), 2) + number(of_entry.size(), 2) +
                 number(4, 2) + number(0, 8) + (is_long ? none : number(place, 4)) + name + of_entry + "note";
  }
  const std::uint64_t begin = archive.size(), end = begin + directory.size();
  archive += directory;
  if (is_long) {
    archive += "PK\x06\x06" + number(44, 8) + number(0, 8) + number(0, 4) + number(2, 8) + number(2, 8) +
               number(directory.size(), 8) + number(begin, 8);
    archive += "PK\x06\x07" + number(0, 4) + number(end, 8) + number(1, 4);
  }
  return archive + "PK\x05\x06" + number(0, 4) + number(2, 2) + number(2, 2) + number(directory.size(), 4) +
         (is_long ? number(0xFFFFFFFF, 4) : number(begin, 4)) + number(9, 2) + "a comment";
}

std::optional<std::uint64_t> place(const std::string& archive, std::uint64_t number_of_member,
                                   const std::string& name) {
  std::istringstream stream(archive);
  return place_in_zip(stream, number_of_member, name);
}

}  // namespace

TEST_CASE("members of an archive are found in both forms of its directory", "[npz]") {
  for (const bool is_long : {false, true}) {
    const std::string archive = archive_of(is_long);
    CAPTURE(is_long);
    CHECK(place(archive, 0, "a") == archive.find("first"));
    CHECK(place(archive, 1, "bc") == archive.find("second"));
    CHECK_FALSE(place(archive, 1, "a"));
    CHECK_FALSE(place(archive, 2, "bc"));
    // Whatever is cut off or damaged is harmless.
    for (std::size_t length = 0; length < archive.size(); ++length) place(archive.substr(0, length), 1, "bc");
    for (std::size_t i = 0; i < archive.size(); ++i) {
      for (const char byte : {'\0', '\x7f', '\xff'}) {
        std::string damaged = archive;
        damaged[i] = byte;
        place(damaged, 1, "bc");
      }
    }
    CHECK_FALSE(place(archive_of(is_long, /*method=*/8), 1, "bc"));
    CHECK_FALSE(place(archive_of(is_long, 0, /*flags=*/1), 1, "bc"));
  }
  CHECK_FALSE(place("", 0, "a"));
}
