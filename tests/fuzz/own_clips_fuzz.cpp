// Own videos: a folder of one image that is PNG or PGM, an .npy file, an archive of such. The first byte
// chooses one of them. The checksums of an image are made right.

#include <zlib.h>

#include "fuzz/edit_program.hpp"
#include "orthornn/tasks/video_task.hpp"
#include "support/npz_writer.hpp"
#include "support/temporary_folder.hpp"
#include "support/text_file.hpp"

using namespace orthornn;
using namespace orthornn::fuzz;

namespace {

/// Sets the checksums of the chunks of a PNG file, as far as there are such.
void correct_checksums(std::string& png) {
  for (std::size_t place = 8; place + 12 <= png.size();) {
    std::size_t length = 0;
    for (std::size_t i = 0; i < 4; ++i) length = length << 8 | static_cast<unsigned char>(png[place + i]);
    if (length > png.size() - place - 12) return;
    const auto* content = reinterpret_cast<const Bytef*>(png.data() + place + 4);
    const uLong checksum = crc32_z(0, content, length + 4);
    for (std::size_t i = 0; i < 4; ++i)
      png[place + 8 + length + i] = static_cast<char>(checksum >> (24 - 8 * i) & 255U);
    place += 12 + length;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  std::string bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  constexpr std::uint8_t image = 0, array = 1, archive = 2;
  static const testing::TemporaryFolder folder;
  std::filesystem::path place;
  switch (data[0]) {
    case image:
      place = folder / "clip";
      std::filesystem::create_directories(place);
      correct_checksums(bytes);
      testing::write_text(place / "frame.png", bytes);
      break;
    case array:
      place = testing::write_text(folder / "clips.npy", bytes);
      break;
    case archive:
      place = testing::write_text(folder / "clips.npz", bytes);
      break;
    default:
      place = folder / "own.npz";
      testing::write_npz(place, {{"own", bytes}});
  }
  const VideoTask task({.clips = Clips::own, .data = place, .frames = 2, .batch = 1});
  if (!accepted(place, [&] { task.load(); })) return 0;
  Batch batch;
  task.training_batch(0, batch);
  for (const HeldOut set : {HeldOut::validation, HeldOut::test})
    task.evaluation_batch(set, task.evaluation_batches(set) - 1, batch);
  return 0;
}
