#include "tasks/sequences/array_file.hpp"

#include <map>

#include "io/npz_file.hpp"
#include "orthornn/io/hdf5.hpp"

namespace orthornn {
namespace {

class Hdf5Arrays final : public ArrayFile {
 public:
  explicit Hdf5Arrays(const std::filesystem::path& file) : reader_(file, Compression::allowed) {}

  std::optional<Array> find(const std::string& name) const override {
    if (!reader_.has(name)) return std::nullopt;
    return Array{reader_.shape(name), reader_.is_integer(name)};
  }
  void read(const std::string& name, const Take<std::int64_t>& take) const override {
    read_pieces(name, take);
  }
  void read(const std::string& name, const Take<float>& take) const override { read_pieces(name, take); }
  std::optional<std::uint64_t> place_of_floats(const std::string& name) const override {
    return reader_.place<float>(name);
  }
  std::optional<std::uint64_t> place_of_int32(const std::string& name) const override {
    return reader_.place<std::int32_t>(name);
  }

 private:
  template <class T>
  void read_pieces(const std::string& name, const Take<T>& take) const {
    // A row of chunks that h5py has chosen, with 1000 steps of 8 numbers, has about 8 million numbers.
    constexpr Index most = Index{1} << 23;
    reader_.read_in_pieces<T>(name, most, [&](TensorView<const T> piece) {
      take({piece.data(), static_cast<std::size_t>(piece.size())});
    });
  }

  Hdf5Reader reader_;
};

class NpzArrays final : public ArrayFile {
 public:
  NpzArrays(const std::filesystem::path& file, const std::vector<std::string>& names)
      : file_(file), arrays_(list_npz(file, names)) {}

  std::optional<Array> find(const std::string& name) const override {
    const auto found = arrays_.find(name);
    if (found == arrays_.end()) return std::nullopt;
    return Array{found->second.shape, found->second.is_integer};
  }
  void read(const std::string& name, const Take<std::int64_t>& take) const override {
    read_npz_in_pieces<std::int64_t>(file_, name, take);
  }
  void read(const std::string& name, const Take<float>& take) const override {
    read_npz_in_pieces<float>(file_, name, take);
  }
  std::optional<std::uint64_t> place_of_floats(const std::string& name) const override {
    return place_in_npz<float>(file_, name);
  }
  std::optional<std::uint64_t> place_of_int32(const std::string& name) const override {
    return place_in_npz<std::int32_t>(file_, name);
  }

 private:
  std::filesystem::path file_;
  std::map<std::string, NumpyArray> arrays_;
};

}  // namespace

std::unique_ptr<ArrayFile> ArrayFile::open(const std::filesystem::path& file,
                                           const std::vector<std::string>& names) {
  if (file.extension() == ".npz") return std::make_unique<NpzArrays>(file, names);
  return std::make_unique<Hdf5Arrays>(file);
}

}  // namespace orthornn
