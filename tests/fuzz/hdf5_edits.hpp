#pragma once
// Sound HDF5 files in memory, and what a stranger might do to them: the bytes of a fuzz input are a program
// of edits through HDF5's own functions, and of bytes.

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "fuzz/edit_program.hpp"
#include "orthornn/io/hdf5.hpp"

namespace orthornn::fuzz {

/// A sound file and what is in it.
struct SoundFile {
  std::vector<std::uint8_t> image;
  struct Object {
    std::string path;
    bool dataset;
    std::vector<std::string> attributes;
  };
  std::vector<Object> objects;
  /// Of the attribute "config", null where there is none.
  nlohmann::ordered_json config;
};

/// From the bytes of a file.
SoundFile sound_file(std::vector<std::uint8_t> image);
/// The same content in the oldest format of HDF5, as h5py writes it: groups with symbol tables, contiguous
/// datasets, text of variable length, no checksums.
SoundFile in_oldest_format(const SoundFile& file);

/// What a writer has been given.
SoundFile written(Hdf5Writer& writer);

/// This float is in no sound file.
constexpr float outside_number = 1234.5F;
/// Another file of the machine, all of that number: links, external storage and virtual datasets lead to it.
class OutsideFile {
 public:
  OutsideFile();
  std::string path() const { return file_.path(); }

 private:
  InputFile file_;
};

/// Applies the steps of the program to the file, and returns its bytes. `outside` is the path of an
/// OutsideFile.
std::vector<std::uint8_t> edited(const SoundFile& file, EditProgram& program, const std::string& outside);
/// The same, and then changes bytes, perhaps with HDF5's checksums of its metadata set right again.
std::vector<std::uint8_t> edited_and_damaged(const SoundFile& file, EditProgram& program,
                                             const std::string& outside);
/// The same without any step: has to be as good as the file.
std::vector<std::uint8_t> unedited(const SoundFile& file, const std::string& outside);

}  // namespace orthornn::fuzz
