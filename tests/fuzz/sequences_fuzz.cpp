// Own sequences: a CSV file, an array of NumPy, an archive of such, an HDF5 file, which may be compressed,
// and texts, in a file and in a column. The first byte chooses one of them.

#include <fstream>

#include "fuzz/edit_program.hpp"
#include "io/npz_file.hpp"
#include "orthornn/tasks/sequences_task.hpp"
#include "support/npz_reader.hpp"
#include "support/npz_writer.hpp"
#include "support/temporary_folder.hpp"

using namespace orthornn;
using namespace orthornn::fuzz;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::vector<std::uint8_t> bytes(data + 1, data + size);
  constexpr std::uint8_t column = 251, words = 252, text = 253, archive = 254, hdf5 = 255;
  static const testing::TemporaryFolder folder;
  if (data[0] >= 2 && data[0] < column) {
    const std::filesystem::path array = folder / "array.npz";
    testing::write_npz(array, {{"own", {bytes.begin(), bytes.end()}}});
    accepted([&] { testing::read_npz(array, {"own"}); });
    accepted([&] { place_in_npz<float>(array, "own"); });
    return 0;
  }
  const std::filesystem::path file = folder / (data[0] == archive                    ? "own.npz"
                                               : data[0] == hdf5                     ? "own.h5"
                                               : data[0] == text || data[0] == words ? "own.txt"
                                                                                     : "own.csv");
  std::ofstream(file, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  const SequencesTask task({.data = file,
                            .inputs = data[0] == column ? "1" : "",
                            .id = data[0] == 0 ? "id" : "",
                            .text = data[0] == words    ? TextUnit::words
                                    : data[0] == column ? TextUnit::characters
                                                        : TextUnit::automatic,
                            .length = data[0] == text || data[0] == words ? 1 : 0,
                            .missing = Missing::mask,
                            .validation_part = 0.3,
                            .test_part = 0.3,
                            .batch = 1});
  if (data[0] == archive) {
    accepted([&] { place_in_npz<float>(file, "inputs"); });
    accepted([&] { place_in_npz<std::int32_t>(file, "targets"); });
  }
  const bool loaded = accepted(file, [&] { task.load(); });
  require_hdf5_closed();
  if (!loaded) return 0;
  Batch batch;
  task.training_batch(0, batch);
  for (const HeldOut set : {HeldOut::validation, HeldOut::test})
    task.evaluation_batch(set, task.evaluation_batches(set) - 1, batch);
  return 0;
}
