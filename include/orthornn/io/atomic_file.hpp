#pragma once

#include <filesystem>
#include <string_view>

namespace orthornn {

/// What a save does where its file is a symbolic link.
enum class SymbolicLinks {
  followed,  // what the link points at is replaced; the link stays
  replaced,  // the link is replaced; what it points at stays
};

/// Makes `bytes` the whole content of the file `path`. Whatever happens on the way (an error, a kill -9, a
/// power cut), the file is afterwards the old one or the new one, never a part: the bytes go to `.NAME.tmp`
/// in the same folder, are forced to disk, and take the name in one step. What a killed process left under
/// that name is overwritten by the next save.
///
/// An existing file keeps its permissions, and a read-only one is refused. Writers of one file wait for each
/// other. Throws FileError, which says why and what to do, after removing the temporary. Where the size of
/// files is limited (ulimit -f), the kernel also sends SIGXFSZ, whose default is to end the process: a
/// program that wants the FileError ignores that signal.
void write_file_atomically(const std::filesystem::path& path, std::string_view bytes,
                           SymbolicLinks links = SymbolicLinks::followed);

}  // namespace orthornn
