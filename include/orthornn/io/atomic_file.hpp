#pragma once

#include <filesystem>
#include <string_view>

namespace orthornn {

/// How a save treats a symbolic link in the place of its file.
enum class SymbolicLinks {
  followed,  ///< The file that the link points at is replaced; the link stays.
  replaced,  ///< The link is replaced; the file that it points at stays.
};

/// Makes `bytes` the whole content of the file `path`. After an error, a kill -9 or a power cut on the way,
/// the file is the old one or the new one, never a part: the bytes go to `.NAME.tmp` in its folder, are
/// forced to disk, and take the name in one step. The next save overwrites a temporary file that a killed
/// process left.
///
/// An existing file keeps its permissions, and a read-only one is refused. Writers of one file wait for each
/// other. Throws FileError, which says why and what to do, after removing the temporary file. Where the size
/// of files is limited (ulimit -f), the kernel also sends SIGXFSZ, whose default is to end the process: a
/// program that wants the FileError ignores that signal.
void write_file_atomically(const std::filesystem::path& path, std::string_view bytes,
                           SymbolicLinks links = SymbolicLinks::followed);

}  // namespace orthornn
