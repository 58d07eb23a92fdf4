// The IDX files of MNIST, packed and unpacked: each alone, and the four of a data folder together.

#include <zlib.h>

#include <initializer_list>

#include "fuzz/edit_program.hpp"
#include "orthornn/tasks/mnist_task.hpp"
#include "support/temporary_folder.hpp"
#include "tasks/mnist/idx_file.hpp"

using namespace orthornn;
using namespace orthornn::fuzz;

namespace {

std::vector<std::uint8_t> gzipped(Bytes bytes) {
  z_stream stream{};
  require(deflateInit2(&stream, 1, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) == Z_OK,
          "zlib does not start");
  std::vector<std::uint8_t> packed(deflateBound(&stream, bytes.size()));
  stream.next_in = const_cast<std::uint8_t*>(bytes.data());
  stream.avail_in = static_cast<unsigned>(bytes.size());
  stream.next_out = packed.data();
  stream.avail_out = static_cast<unsigned>(packed.size());
  require(deflate(&stream, Z_FINISH) == Z_STREAM_END, "zlib does not end");
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

/// A data folder of four files.
struct DataFolder {
  DataFolder() {
    const char* names[] = {"train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte",
                           "t10k-labels-idx1-ubyte"};
    for (int i = 0; i < 4; ++i) std::filesystem::create_symlink(files[i].path(), folder / names[i]);
  }
  testing::TemporaryFolder folder;
  InputFile files[4];
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static DataFolder folder;
  EditProgram program({data, size});
  const int rank = static_cast<int>(program.below(5));
  const bool packed = program.flag();
  const auto write = [&](InputFile& file, Bytes bytes) {
    packed ? file.write(gzipped(bytes)) : file.write(bytes);
  };
  if (rank > 0) {
    write(folder.files[0], program.rest());
    accepted(folder.files[0].path(), [&] { read_idx(folder.files[0].path(), rank); });
    return 0;
  }
  for (InputFile& file : folder.files) write(file, program.some(program.byte()));
  MnistTask task({.data = folder.folder.path(), .permuted = program.flag(), .batch = 2});
  const bool loaded = accepted([&] { task.load(); });
  if (loaded && task.length() < 1000) {
    Batch batch;
    task.training_batch(0, batch);
    for (const HeldOut set : {HeldOut::validation, HeldOut::test})
      task.evaluation_batch(set, task.evaluation_batches(set) - 1, batch);
  }
  return 0;
}
