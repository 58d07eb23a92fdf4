#include "text/text_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <system_error>
#include <vector>

#include "io/expansion.hpp"
#include "io/open_zip.hpp"
#include "orthornn/core/error.hpp"

namespace orthornn {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t largest_text = std::uint64_t{1} << 30;
// Sentences become four times smaller. What becomes thousands of times smaller, as zeros do, is made to fill
// the memory.
constexpr std::uint64_t unsuspicious_text = std::uint64_t{8} << 20;
constexpr std::size_t piece_size = std::size_t{1} << 18;

[[noreturn]] void fail(const std::string& name, const std::string& what) {
  throw FileError(fmt::format("{}: {}", name, what));
}

[[noreturn]] void refuse_size(const std::string& name) {
  fail(name, "its text has more than 1 GiB, the limit; split it, or keep a part of it");
}

std::string in_lower_case(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

bool ends_with_one_of(const std::string& name, std::initializer_list<const char*> endings) {
  const std::string lower = in_lower_case(name);
  return std::ranges::any_of(endings, [&](const char* ending) { return lower.ends_with(ending); });
}

/// Notes about the text, and what systems leave in archives: _about.txt, __MACOSX/._spa.txt
bool is_beside_the_text(const fs::path& name) {
  return std::ranges::any_of(name, [](const fs::path& part) {
    const std::string text = part.string();
    return text.starts_with('_') || (text.starts_with('.') && text != ".");
  });
}

/// "a.txt, b.txt, .."
std::string first_names(const std::vector<std::string>& names) {
  std::string text;
  for (std::size_t i = 0; i < std::min<std::size_t>(names.size(), 3); ++i) {
    if (i > 0) text += ", ";
    text += names[i].substr(0, 80);
  }
  return names.size() > 3 ? text + ", .." : text;
}

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using File = std::unique_ptr<std::FILE, CloseFile>;

File open_file(const fs::path& path) {
  const std::string name = path.string();
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (!fs::exists(status)) {
    fail(name, error && error != std::errc::no_such_file_or_directory
                   ? fmt::format("it cannot be looked at ({})", error.message())
                   : "there is no such file; name a text of sentence pairs, its zip archive, or its folder");
  }
  if (!fs::is_regular_file(status)) fail(name, "it is no regular file; name a text or a zip archive");
  File file(std::fopen(path.c_str(), "rb"));
  if (file == nullptr) fail(name, fmt::format("it cannot be opened ({})", std::strerror(errno)));
  return file;
}

/// Hands pieces on until `read(buffer)` returns 0. `check(bytes)` may refuse what has come so far.
template <class Read, class Check>
void hand_on(const Read& read, const Check& check, const TakePiece& take) {
  std::vector<char> buffer(piece_size);
  std::uint64_t total = 0;
  while (const std::size_t count = read(std::span(buffer))) {
    total += count;
    check(total);
    take({buffer.data(), count});
  }
}

void read_plain(const std::string& name, std::FILE* file, const TakePiece& take) {
  hand_on(
      [&](std::span<char> to) {
        const std::size_t count = std::fread(to.data(), 1, to.size(), file);
        if (count == 0 && std::ferror(file) != 0)
          fail(name, fmt::format("it cannot be read ({})", std::strerror(errno)));
        return count;
      },
      [&](std::uint64_t total) {
        if (total > largest_text) refuse_size(name);
      },
      take);
}

[[noreturn]] void refuse_archive(const std::string& name, const char* reason) {
  fail(name, fmt::format("it is damaged, truncated or no zip archive that can be read ({}); fetch it again",
                         reason));
}

std::unique_ptr<zip_t, CloseZip> open_archive(const fs::path& path) {
  std::string reason;
  std::unique_ptr<zip_t, CloseZip> archive = open_zip(path, reason);
  if (archive == nullptr) refuse_archive(path.string(), reason.c_str());
  return archive;
}

/// Number of the only text in an archive.
zip_uint64_t find_member(const std::string& name, zip_t* archive) {
  std::vector<std::string> texts;
  zip_uint64_t found = 0;
  const zip_int64_t count = zip_get_num_entries(archive, 0);
  for (zip_int64_t i = 0; i < count; ++i) {
    const char* member = zip_get_name(archive, static_cast<zip_uint64_t>(i), ZIP_FL_ENC_GUESS);
    if (member == nullptr || is_beside_the_text(member) || !ends_with_one_of(member, {".txt"})) continue;
    texts.emplace_back(member);
    found = static_cast<zip_uint64_t>(i);
  }
  constexpr const char* expected = "expected one *.txt whose name does not begin with _ or .";
  if (texts.empty()) fail(name, fmt::format("{}, found none among {} members", expected, count));
  if (texts.size() > 1) {
    fail(name, fmt::format("{}, found {} ({}); unpack it, and name one of them", expected, texts.size(),
                           first_names(texts)));
  }
  return found;
}

std::string read_archive(const fs::path& path, const TakePiece& take) {
  const std::unique_ptr<zip_t, CloseZip> archive = open_archive(path);
  const zip_uint64_t number = find_member(path.string(), archive.get());
  zip_stat_t properties;
  zip_stat_init(&properties);
  if (zip_stat_index(archive.get(), number, 0, &properties) != 0)
    refuse_archive(path.string(), zip_strerror(archive.get()));
  const std::string name = fmt::format("{} ({})", path.string(), properties.name);
  if ((properties.valid & ZIP_STAT_ENCRYPTION_METHOD) != 0 && properties.encryption_method != ZIP_EM_NONE)
    fail(name, "it is encrypted; unpack it with its password, and name the text");
  if ((properties.valid & ZIP_STAT_SIZE) != 0 && properties.size > largest_text) refuse_size(name);

  const std::unique_ptr<zip_file_t, CloseZip> member(zip_fopen_index(archive.get(), number, 0));
  if (member == nullptr) refuse_archive(name, zip_strerror(archive.get()));
  std::error_code status;
  const std::uint64_t packed = fs::file_size(path, status);
  if (status) fail(path.string(), fmt::format("its size cannot be read ({})", status.message()));
  hand_on(
      [&](std::span<char> to) {
        const zip_int64_t count = zip_fread(member.get(), to.data(), to.size());
        if (count < 0) refuse_archive(name, zip_file_strerror(member.get()));
        return static_cast<std::size_t>(count);
      },
      // What an archive says of its sizes may be wrong.
      [&](std::uint64_t total) {
        if (total > largest_text) refuse_size(name);
        if (total > unsuspicious_text && total / largest_expansion > packed) {
          fail(name,
               fmt::format("its text is more than {} times as long as the archive, which is taken for a zip "
                           "bomb; if it is none, unpack it, and name the text",
                           largest_expansion));
        }
      },
      take);
  return name;
}

bool is_archive(const fs::path& path, std::FILE* file) {
  std::array<char, 4> begin{};
  const std::size_t count = std::fread(begin.data(), 1, begin.size(), file);
  std::rewind(file);
  return ends_with_one_of(path.string(), {".zip"}) ||
         std::string_view(begin.data(), count) == std::string_view("PK\x03\x04");
}

}  // namespace

fs::path find_text_file(const fs::path& folder) {
  std::vector<std::string> found;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error); !error && entry != fs::directory_iterator();
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    std::error_code ignored;  // what cannot be looked at is not there
    if (is_beside_the_text(name) || !ends_with_one_of(name, {".zip", ".txt", ".tsv"}) ||
        !entry->is_regular_file(ignored))
      continue;
    found.push_back(name);
  }
  if (error) fail(folder.string(), fmt::format("the folder cannot be read ({})", error.message()));
  if (found.empty()) {
    fail(folder.string(),
         "the folder has no *.zip, *.txt or *.tsv; name the folder, archive or text of sentence pairs");
  }
  std::ranges::sort(found);
  if (found.size() > 1) {
    fail(folder.string(), fmt::format("expected one *.zip, *.txt or *.tsv in the folder, found {} ({}); name "
                                      "one of them",
                                      found.size(), first_names(found)));
  }
  return folder / found.front();
}

std::string read_text_file(const fs::path& path, const TakePiece& take) {
  const File file = open_file(path);
  if (is_archive(path, file.get())) return read_archive(path, take);
  read_plain(path.string(), file.get(), take);
  return path.string();
}

}  // namespace orthornn
