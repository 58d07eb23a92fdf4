#pragma once

#include <functional>
#include <memory>
#include <type_traits>
#include <utility>

#include "orthornn/core/device.hpp"
#include "orthornn/core/error.hpp"
#include "orthornn/core/shape.hpp"

namespace orthornn {

/// A shaped window on memory that another object owns, in C order. A view of const T is read-only.
///
/// The memory may come from anywhere, such as PyTorch or cudaMalloc: `TensorView<float>(pointer, {T, B, N},
/// device)`. It holds shape.count() numbers without gaps, each aligned as a T. Memory of a GPU was allocated
/// on that GPU. It must outlive the view, and on a GPU the operations that use it (`synchronize`). Work of
/// others on it must be over, or come earlier on `stream_of(device)`.
///
/// A tensor [.., N] is, in memory, the column-major N x (..) matrix that BLAS and Eigen want: a sequence
/// [T, B, N] is a matrix with one column for each time and sequence. No operation here transposes or copies.
template <class T>
class TensorView {
 public:
  /// An empty view, of shape [0] on the CPU.
  TensorView() = default;
  /// A view of memory on `device`.
  TensorView(T* data, Shape shape, Device device = Device::cpu())
      : data_(data), shape_(shape), device_(device) {}
  /// A read-only view from a writable one.
  template <class U>
  requires(std::is_same_v<const U, T> && !std::is_same_v<U, T>) TensorView(const TensorView<U>& other)
      : TensorView(other.data(), other.shape(), other.device()) {}

  /// Address of the first element, in memory of the device.
  T* data() const { return data_; }
  /// Sizes of all dimensions.
  const Shape& shape() const { return shape_; }
  /// Device whose memory it is.
  Device device() const { return device_; }
  /// Number of elements; 0 for a view without memory.
  Index size() const { return data_ == nullptr ? 0 : shape_.count(); }
  /// Whether there are no elements.
  bool empty() const { return size() == 0; }
  /// Address of the first element.
  T* begin() const { return data_; }
  /// Address behind the last element.
  T* end() const { return data_ + size(); }

  /// Element of a view of host memory, by one index for each dimension. The indices are not checked.
  template <class... I>
  T& operator()(I... indices) const {
    Index offset = 0;
    int dimension = 0;
    ((offset = offset * shape_[dimension++] + static_cast<Index>(indices)), ...);
    return data_[offset];
  }

  /// View of the entries first to first + count - 1 of the first dimension. The range is not checked.
  TensorView slice(Index first, Index count) const {
    const TensorView at_first = (*this)[first];
    Shape part{count};
    for (const Index size : at_first.shape_) part.append(size);
    return TensorView(at_first.data_, part, device_);
  }
  /// View of entry i of the first dimension, which the view does not have. The index is not checked.
  TensorView operator[](Index i) const {
    const Shape part(shape_.begin() + 1, shape_.end());
    return TensorView(data_ + i * part.count(), part, device_);
  }
  /// View of all elements under another shape. Throws ShapeError when the counts differ.
  TensorView reshaped(const Shape& shape) const {
    if (shape.count() != shape_.count()) check_shape("reshaped tensor", shape_, shape);
    return TensorView(data_, shape, device_);
  }

 private:
  T* data_ = nullptr;
  Shape shape_{0};
  Device device_ = Device::cpu();
};

/// A read-only view as a function parameter. T is not deduced from it, so a Tensor<T> or TensorView<T>
/// converts.
template <class T>
using ConstTensorView = TensorView<const std::type_identity_t<T>>;

/// A shaped array that owns its memory on a device, in C order. It is moved; a copy is made by `copy()`
/// alone.
template <class T>
class Tensor {
 public:
  /// An empty tensor, of shape [0] on the CPU.
  Tensor() = default;
  /// A tensor of zeros. Throws as `resize`.
  explicit Tensor(Shape shape, Device device = Device::cpu()) : device_(device) { resize(shape); }
  /// Takes over the memory of another tensor, which becomes empty.
  Tensor(Tensor&& other) noexcept { swap(other); }
  /// Takes over memory that a TensorView may be made of. `release` is called once, when the tensor no longer
  /// needs the memory: at its end, or where it needs more memory. It must not throw. On a GPU, operations may
  /// still be using the memory then; cudaFree waits for them. Throws ValueError for an empty `release`.
  static Tensor adopt(T* data, const Shape& shape, Device device, std::function<void(T*)> release) {
    if (!release) throw ValueError("memory was adopted without a function that releases it; expected one");
    Tensor result;
    result.capacity_ = shape.count();
    result.foreign_ = std::make_unique<std::function<void(T*)>>(std::move(release));
    result.data_ = data;
    result.shape_ = shape;
    result.device_ = device;
    return result;
  }
  Tensor& operator=(Tensor&& other) noexcept {
    Tensor(std::move(other)).swap(*this);
    return *this;
  }
  ~Tensor() { give_back(); }

  /// Gives the tensor this shape and sets it to zero. It takes new memory only when its memory is too small.
  /// Throws ShapeError for more than 2^63 bytes, and std::bad_alloc, or DeviceError for a GPU, where memory
  /// is short; the tensor is then as it was.
  void resize(const Shape& shape) {
    reserve(shape);
    detail::fill_zero(device_, data_, shape.bytes(sizeof(T)));
  }
  /// Gives the tensor this shape, with unspecified elements. Takes memory and throws as `resize`.
  void reserve(const Shape& shape) {
    if (shape.count() > capacity_) {
      void* memory = detail::allocate(device_, shape.bytes(sizeof(T)));
      give_back();
      data_ = static_cast<T*>(memory);
      capacity_ = shape.count();
    }
    shape_ = shape;
  }
  /// A copy on the tensor's device.
  Tensor copy() const { return copy(device_); }
  /// A copy on any device. A copy between a GPU and the host waits for the GPU.
  Tensor copy(Device device) const {
    Tensor result;
    result.device_ = device;
    result.reserve(shape_);
    detail::copy_bytes(device, result.data_, device_, data_, data_ == nullptr ? 0 : shape_.bytes(sizeof(T)));
    return result;
  }

  /// View of all elements.
  TensorView<T> view() { return {data_, shape_, device_}; }
  /// Read-only view of all elements.
  TensorView<const T> view() const { return {data_, shape_, device_}; }
  /// View of all elements, where a function takes a view.
  operator TensorView<T>() { return view(); }
  /// Read-only view of all elements, where a function takes a view.
  operator TensorView<const T>() const { return view(); }

  /// Address of the first element, in memory of the device.
  T* data() { return data_; }
  /// Read-only address of the first element, in memory of the device.
  const T* data() const { return data_; }
  /// Sizes of all dimensions.
  const Shape& shape() const { return shape_; }
  /// Device on which the memory lies.
  Device device() const { return device_; }
  /// Number of elements; 0 for a tensor without memory.
  Index size() const { return data_ == nullptr ? 0 : shape_.count(); }
  /// Whether there are no elements.
  bool empty() const { return size() == 0; }
  /// Address of the first element.
  T* begin() { return data_; }
  /// Address behind the last element.
  T* end() { return data_ + size(); }
  /// Read-only address of the first element.
  const T* begin() const { return data_; }
  /// Read-only address behind the last element.
  const T* end() const { return data_ + size(); }
  /// Element of a tensor in host memory, by one index for each dimension. The indices are not checked.
  template <class... I>
  T& operator()(I... indices) {
    return view()(indices...);
  }
  /// Element, to read, of a tensor in host memory, by one index for each dimension. The indices are not
  /// checked.
  template <class... I>
  const T& operator()(I... indices) const {
    return view()(indices...);
  }

 private:
  void swap(Tensor& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(capacity_, other.capacity_);
    std::swap(shape_, other.shape_);
    std::swap(device_, other.device_);
    std::swap(foreign_, other.foreign_);
  }
  void give_back() noexcept {
    if (foreign_ == nullptr) return detail::release(device_, data_);
    (*foreign_)(data_);
    foreign_.reset();
  }

  T* data_ = nullptr;
  /// What releases adopted memory; null for memory of its own.
  std::unique_ptr<std::function<void(T*)>> foreign_;
  Index capacity_ = 0;
  Shape shape_{0};
  Device device_ = Device::cpu();
};

/// Copies elements between tensors of one shape, on any devices. A copy between a GPU and the host waits for
/// the GPU; a copy from a GPU to the host also throws as `synchronize`. Throws ShapeError where the shapes
/// differ.
template <class T>
void copy(ConstTensorView<T> from, TensorView<T> to) {
  check_shape("copied tensor", from.shape(), to.shape());
  detail::copy_bytes(to.device(), to.data(), from.device(), from.data(),
                     static_cast<std::size_t>(from.size()) * sizeof(T));
}

}  // namespace orthornn
