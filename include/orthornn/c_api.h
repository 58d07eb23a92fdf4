/* The C interface of orthornn, for C and for every language that can call C. docs/c-api.md has its
 * conventions:
 *
 * - Arrays are contiguous and in C order, the last index fastest. Sizes are int64_t and count elements; sizes
 *   of memory are in bytes. An array of no elements may be NULL.
 * - An operation takes its device first. Its arrays lie on that device, unless the comment says "host
 *   memory". NULL stands for the CPU.
 * - An operation works in `workspace`, of as many bytes as its function `.._workspace` says; 256 is enough as
 *   its alignment. 0 bytes may be NULL. It allocates no memory for its data. Orthogonal weight normalization
 * on the CPU is the exception.
 * - An operation overwrites the arrays that it returns, and keeps nothing from one call to the next.
 * - Every function returns a status. No C++ exception leaves the library.
 *
 * Letters of shapes: T steps, B sequences, N state size, L reflections, K input or key size, V value size, H
 * heads, n factors a token, R rows. */
#ifndef ORTHORNN_C_API_H
#define ORTHORNN_C_API_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Marks the functions that the shared library exports. */
#if defined(__GNUC__)
#define ORTHORNN_EXPORT __attribute__((visibility("default")))
#else
#define ORTHORNN_EXPORT
#endif

/** Version of this interface. It grows when a program that was compiled before would no longer run. Additions
 * alone leave it as it is. */
#define ORTHORNN_ABI_VERSION 2

/** The ORTHORNN_ABI_VERSION that the library was compiled with. */
ORTHORNN_EXPORT int32_t orthornn_abi_version(void);
/** Version of the library, "MAJOR.MINOR.PATCH". The text lives as long as the library. */
ORTHORNN_EXPORT const char *orthornn_version(void);

/* ---------------------------------------------------------------------------------------------------------
 * Status
 * ------------------------------------------------------------------------------------------------------ */

/** What a function returns. */
typedef int32_t orthornn_status;
enum {
  /** All went well. */
  ORTHORNN_OK = 0,
  /** An argument is NULL, is not a value of its enumeration, is a negative or too large size, or is a
   * workspace that is too small. */
  ORTHORNN_INVALID_ARGUMENT = 1,
  /** Shapes do not fit together, or have more elements than fit in 63 bits. Functions of models alone return
   * it. Operations find shapes from sizes, and return ORTHORNN_INVALID_ARGUMENT for wrong ones. */
  ORTHORNN_INVALID_SHAPE = 2,
  /** A value is outside its domain, such as a reflection vector of zeros. */
  ORTHORNN_INVALID_VALUE = 3,
  /** A file is missing, damaged or foreign, or cannot be written. */
  ORTHORNN_FILE_ERROR = 4,
  /** The build or the machine lacks a device, or the device lacks the operation. */
  ORTHORNN_DEVICE_ERROR = 5,
  /** Memory is short. */
  ORTHORNN_OUT_OF_MEMORY = 6,
  /** An error of the library itself. */
  ORTHORNN_INTERNAL_ERROR = 7
};

/** One sentence about the last call of this thread that did not return ORTHORNN_OK. It names the argument,
 * what was found and what was expected. The text is UTF-8 and valid until the next such call of this thread.
 */
ORTHORNN_EXPORT const char *orthornn_last_message(void);

/* ---------------------------------------------------------------------------------------------------------
 * Devices, types, threads
 * ------------------------------------------------------------------------------------------------------ */

/** Values of orthornn_device.kind. */
enum {
  /** The processors of this machine. */
  ORTHORNN_CPU = 0,
  /** An NVIDIA GPU. */
  ORTHORNN_CUDA = 1
};

/** Where an operation computes. */
typedef struct orthornn_device {
  /** ORTHORNN_CPU or ORTHORNN_CUDA. */
  int32_t kind;
  /** Number of the GPU, from 0; 0 for the CPU. */
  int32_t index;
  /** cudaStream_t of the GPU to which the operation goes; NULL is CUDA's default stream. It may be captured.
   * Not read for the CPU. */
  void *stream;
} orthornn_device;

/** Types of numbers. Comments name those that a function takes. */
enum {
  /** float, 32 bits. */
  ORTHORNN_F32 = 0,
  /** double, 64 bits. */
  ORTHORNN_F64 = 1,
  /** bfloat16, 16 bits: vectors of a delta product in the chunked form on a GPU. */
  ORTHORNN_BF16 = 2
};

/** Precision of large products of floats on a GPU. The CPU is always exact. */
enum {
  /** Products of 24-bit significands. */
  ORTHORNN_PRECISION_FP32 = 0,
  /** Products on tensor cores, of significands with 11 bits or more. */
  ORTHORNN_PRECISION_TF32 = 1,
  /** Products with some operands rounded to bfloat16. */
  ORTHORNN_PRECISION_BF16 = 2
};

/** Whether the library has code for GPUs: 1 or 0. */
ORTHORNN_EXPORT int32_t orthornn_built_with_cuda(void);
/** Returns ORTHORNN_OK where the device can be used, and says otherwise what it lacks. */
ORTHORNN_EXPORT orthornn_status orthornn_check_device(const orthornn_device *device);
/** Waits for a GPU and returns what its operations found wrong, as only they could know it. */
ORTHORNN_EXPORT orthornn_status orthornn_synchronize(const orthornn_device *device);
/** Number of threads that operations on the CPU use. */
ORTHORNN_EXPORT int32_t orthornn_thread_count(void);
/** Sets the number of threads for the whole process, 1 or more. Results do not depend on it. */
ORTHORNN_EXPORT orthornn_status orthornn_set_thread_count(int32_t count);

/* ---------------------------------------------------------------------------------------------------------
 * The orthogonal matrix Q [N, N] from free parameters
 * ------------------------------------------------------------------------------------------------------ */

/** Parametrizations of Q. */
enum {
  /** Q = H(v1) .. H(vL) from reflection vectors V [L, N], by the compact WY form. */
  ORTHORNN_CWY = 0,
  /** Q = H(v1) .. H(vL) from V [L, N], one reflection after another. */
  ORTHORNN_HOUSEHOLDER = 1,
  /** Q = (I + A)^-1 (I - A) D from X [N, N], where A = X - X^T and D has the first `negative_signs` of its
   * diagonal entries -1. */
  ORTHORNN_CAYLEY = 2,
  /** Q = exp(X - X^T) from X [N, N]. */
  ORTHORNN_EXPM = 3,
  /** Orthogonal weight normalization: Q = V (V^T V)^-1/2 from V [N, N], the orthogonal matrix nearest to V.
   */
  ORTHORNN_OWN = 4
};

/** How parameters are drawn. */
enum {
  /** Rotations of pairs of coordinates by angles uniform in [-pi, pi). */
  ORTHORNN_INIT_HENAFF = 0,
  /** Rotations of pairs of coordinates by angles uniform in [0, pi / 2). */
  ORTHORNN_INIT_CAYLEY = 1,
  /** Q uniform over the orthogonal matrices that the parametrization reaches. */
  ORTHORNN_INIT_HAAR = 2,
  /** Standard normal reflection vectors; for Cayley and the exponential a normal X of variance 1 / N; for
   * orthogonal weight normalization as ORTHORNN_INIT_HAAR. */
  ORTHORNN_INIT_NORMAL = 3
};

/** A parametrization and its sizes. */
typedef struct orthornn_transition {
  /** ORTHORNN_F32 or ORTHORNN_F64. */
  int32_t dtype;
  /** ORTHORNN_CWY, .._HOUSEHOLDER, .._CAYLEY, .._EXPM or .._OWN. */
  int32_t kind;
  /** Size N of Q, 1 or more. */
  int64_t size;
  /** Number L of reflections, 1 to N, or 0 for N; 0 for parametrizations without reflections. */
  int64_t reflections;
  /** Cayley: entries -1 of D, 0 to N; 0 for the others. */
  int64_t negative_signs;
} orthornn_transition;

/** Writes the shape of the parameters to shape[0] and shape[1]: [L, N] or [N, N]. */
ORTHORNN_EXPORT orthornn_status orthornn_transition_parameter_shape(const orthornn_transition *transition,
                                                                    int64_t shape[2]);
/** Draws parameters by an initialization, an equal array for a seed on every machine. `parameters` is host
 * memory. It may allocate memory. */
ORTHORNN_EXPORT orthornn_status orthornn_transition_initialize(const orthornn_transition *transition,
                                                               int32_t init, uint64_t seed, void *parameters);
/** Finds parameters with which Q is the given orthogonal matrix q [N, N]; both are host memory. It may
 * allocate memory. Returns ORTHORNN_INVALID_VALUE, with the reason, where no parameters give q. */
ORTHORNN_EXPORT orthornn_status orthornn_transition_parameters_of(const orthornn_transition *transition,
                                                                  const void *q, void *parameters);

/** Bytes of workspace of orthornn_transition_forward. */
ORTHORNN_EXPORT orthornn_status orthornn_transition_forward_workspace(const orthornn_device *device,
                                                                      const orthornn_transition *transition,
                                                                      int64_t *bytes);
/** Computes q [N, N] from the parameters. Returns ORTHORNN_INVALID_VALUE for parameters that are not finite,
 * for a reflection vector of zeros, which the message names by its index, and for a singular V of orthogonal
 * weight normalization; on a GPU, orthornn_synchronize returns it. */
ORTHORNN_EXPORT orthornn_status orthornn_transition_forward(const orthornn_device *device,
                                                            const orthornn_transition *transition,
                                                            const void *parameters, void *q, void *workspace,
                                                            int64_t workspace_bytes);
/** Bytes of workspace of orthornn_transition_backward. */
ORTHORNN_EXPORT orthornn_status orthornn_transition_backward_workspace(const orthornn_device *device,
                                                                       const orthornn_transition *transition,
                                                                       int64_t *bytes);
/** Computes the gradient d_parameters from the parameters and the gradient d_q [N, N]. Errors are those of
 * the forward. */
ORTHORNN_EXPORT orthornn_status orthornn_transition_backward(const orthornn_device *device,
                                                             const orthornn_transition *transition,
                                                             const void *parameters, const void *d_q,
                                                             void *d_parameters, void *workspace,
                                                             int64_t workspace_bytes);

/* ---------------------------------------------------------------------------------------------------------
 * Matrices with orthonormal columns
 * ------------------------------------------------------------------------------------------------------ */

/** Kinds of matrices Omega [N, M] with orthonormal columns. Each is a function of free parameters V. */
enum {
  /** T-CWY: the first M columns of the CWY matrix of M reflection vectors V [M, N]. */
  ORTHORNN_STIEFEL_TCWY = 0,
  /** Orthogonal weight normalization: Omega = V (V^T V)^-1/2 of V [N, M]. */
  ORTHORNN_STIEFEL_OWN = 1
};

/** A matrix with orthonormal columns. */
typedef struct orthornn_stiefel {
  /** ORTHORNN_F32 or ORTHORNN_F64. */
  int32_t dtype;
  /** ORTHORNN_STIEFEL_TCWY or ORTHORNN_STIEFEL_OWN. */
  int32_t kind;
  /** Number N of rows of Omega. */
  int64_t rows;
  /** Number M of columns of Omega, 1 to N. */
  int64_t columns;
} orthornn_stiefel;

/** Draws V with which Omega is uniform, an equal array for a seed on every machine. `parameters` is host
 * memory. It may allocate memory. */
ORTHORNN_EXPORT orthornn_status orthornn_stiefel_initialize(const orthornn_stiefel *stiefel, uint64_t seed,
                                                            void *parameters);
/** Finds V for the given omega [N, M] with orthonormal columns; both are host memory. It may allocate memory.
 * Orthogonal weight normalization has a V for every omega. T-CWY has one where M < N, and for a square omega
 * whose determinant is (-1)^N. Returns ORTHORNN_INVALID_VALUE where there is none, and where the columns are
 * not orthonormal. */
ORTHORNN_EXPORT orthornn_status orthornn_stiefel_parameters_of(const orthornn_stiefel *stiefel,
                                                               const void *omega, void *parameters);
/** Bytes of workspace of orthornn_stiefel_forward. */
ORTHORNN_EXPORT orthornn_status orthornn_stiefel_forward_workspace(const orthornn_device *device,
                                                                   const orthornn_stiefel *stiefel,
                                                                   int64_t *bytes);
/** Computes omega [N, M] from V. Errors are those of orthornn_transition_forward. */
ORTHORNN_EXPORT orthornn_status orthornn_stiefel_forward(const orthornn_device *device,
                                                         const orthornn_stiefel *stiefel,
                                                         const void *parameters, void *omega, void *workspace,
                                                         int64_t workspace_bytes);
/** Bytes of workspace of orthornn_stiefel_backward. */
ORTHORNN_EXPORT orthornn_status orthornn_stiefel_backward_workspace(const orthornn_device *device,
                                                                    const orthornn_stiefel *stiefel,
                                                                    int64_t *bytes);
/** Computes the gradient d_parameters, which has the shape of V, from V and the gradient d_omega [N, M].
 * Errors are those of the forward. */
ORTHORNN_EXPORT orthornn_status orthornn_stiefel_backward(const orthornn_device *device,
                                                          const orthornn_stiefel *stiefel,
                                                          const void *parameters, const void *d_omega,
                                                          void *d_parameters, void *workspace,
                                                          int64_t workspace_bytes);

/* ---------------------------------------------------------------------------------------------------------
 * A recurrence through all its steps
 * ------------------------------------------------------------------------------------------------------ */

/** Functions sigma of the recurrence. */
enum {
  ORTHORNN_TANH = 0,
  ORTHORNN_RELU = 1,
  ORTHORNN_ABS = 2,
  /** sign(a) max(|a| + m, 0) with a learned m [N]. */
  ORTHORNN_MODRELU = 3,
  ORTHORNN_IDENTITY = 4
};

/** The recurrence h_t = sigma(Q h_{t-1} + a_t), t = 1 to T, for B sequences. Tensors are [T, B, ..]. Any
 * matrix Q is allowed, also one that is not orthogonal. */
typedef struct orthornn_rollout {
  /** ORTHORNN_F32 or ORTHORNN_F64. */
  int32_t dtype;
  /** ORTHORNN_TANH .. ORTHORNN_IDENTITY. */
  int32_t activation;
  /** ORTHORNN_PRECISION_FP32, .._TF32 or .._BF16. */
  int32_t precision;
  /** 0. */
  int32_t reserved;
  /** Steps T, 0 or more. */
  int64_t length;
  /** Sequences B, 0 or more. */
  int64_t batch;
  /** State size N, 1 or more. */
  int64_t size;
} orthornn_rollout;

/** Bytes of workspace of orthornn_rollout_forward. */
ORTHORNN_EXPORT orthornn_status orthornn_rollout_forward_workspace(const orthornn_device *device,
                                                                   const orthornn_rollout *rollout,
                                                                   int64_t *bytes);
/** Computes all states.
 *
 * - q [N, N].
 * - modrelu_bias [N]: m; NULL for other activations.
 * - lengths [B]: steps of each sequence, 0 to T; NULL where all have T. States beyond the end of a sequence
 * are 0.
 * - inputs [T, B, N]: a_t. They may lie in the memory of the outputs.
 * - h_0 [B, N]: the states before the first step; NULL for zeros.
 * - outputs [T, B, N]: gets h_1 to h_T.
 * - h_last [B, N]: gets the state after the last step of each sequence, which is h_0 where the length is 0.
 * - signs [T, B, N]: gets the signs of Q h_{t-1} + a_t, which the backward of ORTHORNN_ABS reads; NULL for
 * other activations. */
ORTHORNN_EXPORT orthornn_status orthornn_rollout_forward(const orthornn_device *device,
                                                         const orthornn_rollout *rollout, const void *q,
                                                         const void *modrelu_bias, const int32_t *lengths,
                                                         const void *inputs, const void *h_0, void *outputs,
                                                         void *h_last, int8_t *signs, void *workspace,
                                                         int64_t workspace_bytes);

/** Bytes of workspace of orthornn_rollout_backward. */
ORTHORNN_EXPORT orthornn_status orthornn_rollout_backward_workspace(const orthornn_device *device,
                                                                    const orthornn_rollout *rollout,
                                                                    int64_t *bytes);
/** Computes the gradients of a forward from its outputs.
 *
 * - q, lengths, h_0, outputs, signs: as the forward had and left them.
 * - d_outputs [T, B, N]: the gradients that arrive at h_1 to h_T; NULL where all are 0. What arrives beyond
 * the end of a sequence does not count. It may be d_inputs.
 * - d_h_last [B, N]: the gradient that arrives at h_last; NULL where it is 0.
 * - d_inputs [T, B, N]: gets the gradients of a_t, 0 beyond the end of a sequence.
 * - d_h_0 [B, N]: gets the gradient of h_0.
 * - d_q [N, N]: gets the gradient of Q; NULL where it is not wanted.
 * - d_modrelu_bias [N]: gets the gradient of m; NULL where it is not wanted, and for other activations. */
ORTHORNN_EXPORT orthornn_status orthornn_rollout_backward(
    const orthornn_device *device, const orthornn_rollout *rollout, const void *q, const int32_t *lengths,
    const void *h_0, const void *outputs, const int8_t *signs, const void *d_outputs, const void *d_h_last,
    void *d_inputs, void *d_h_0, void *d_q, void *d_modrelu_bias, void *workspace, int64_t workspace_bytes);

/* ---------------------------------------------------------------------------------------------------------
 * The inputs of a recurrence
 * ------------------------------------------------------------------------------------------------------ */

/** The map y = W x + b of all steps, by which a recurrence gets its a_t: x [T, B, K], y [T, B, N]. */
typedef struct orthornn_affine {
  /** ORTHORNN_F32 or ORTHORNN_F64. */
  int32_t dtype;
  /** ORTHORNN_PRECISION_FP32, .._TF32 or .._BF16. */
  int32_t precision;
  /** Steps T, 0 or more. */
  int64_t length;
  /** Sequences B, 0 or more. */
  int64_t batch;
  /** Numbers K of x in a step, 1 or more. */
  int64_t inputs;
  /** Numbers N of y in a step, 1 or more. */
  int64_t outputs;
} orthornn_affine;

/** Bytes of workspace of orthornn_affine_forward. */
ORTHORNN_EXPORT orthornn_status orthornn_affine_forward_workspace(const orthornn_device *device,
                                                                  const orthornn_affine *affine,
                                                                  int64_t *bytes);
/** Computes y [T, B, N] from w [N, K], b [N], which is NULL for none, and x [T, B, K]. */
ORTHORNN_EXPORT orthornn_status orthornn_affine_forward(const orthornn_device *device,
                                                        const orthornn_affine *affine, const void *w,
                                                        const void *b, const void *x, void *y,
                                                        void *workspace, int64_t workspace_bytes);
/** Bytes of workspace of orthornn_affine_backward. */
ORTHORNN_EXPORT orthornn_status orthornn_affine_backward_workspace(const orthornn_device *device,
                                                                   const orthornn_affine *affine,
                                                                   int64_t *bytes);
/** Computes the gradients of a forward.
 *
 * - w, x: as the forward had them.
 * - d_y [T, B, N]: the gradients that arrive.
 * - states [T, B, N]: the outputs of the recurrence that d_y comes from. NULL where d_modrelu_bias is.
 * - d_w [N, K]: gets the gradient of W.
 * - d_b [N]: gets the gradient of b; NULL where it is not wanted.
 * - d_modrelu_bias [N]: gets the gradient of m of ORTHORNN_MODRELU, in the same pass; NULL where it is not
 *   wanted.
 * - d_x [T, B, K]: gets the gradient of x; NULL where it is not wanted. */
ORTHORNN_EXPORT orthornn_status orthornn_affine_backward(const orthornn_device *device,
                                                         const orthornn_affine *affine, const void *w,
                                                         const void *x, const void *d_y, const void *states,
                                                         void *d_w, void *d_b, void *d_modrelu_bias,
                                                         void *d_x, void *workspace, int64_t workspace_bytes);

/* ---------------------------------------------------------------------------------------------------------
 * Places of tokens in the rows of tensors
 * ------------------------------------------------------------------------------------------------------ */

/** Orders of the R rows. */
enum {
  /** Tensors [B, T, ..]: R = B T. */
  ORTHORNN_SEQUENCE_MAJOR = 0,
  /** Tensors [T, B, ..]: R = T B. */
  ORTHORNN_TIME_MAJOR = 1,
  /** Sequences one after another, without padding: R = offsets[B]. */
  ORTHORNN_PACKED = 2
};

/** Where the tokens of B sequences are among R rows. */
typedef struct orthornn_layout {
  /** ORTHORNN_SEQUENCE_MAJOR, .._TIME_MAJOR or .._PACKED. */
  int32_t order;
  /** 0. */
  int32_t reserved;
  /** Sequences B, 0 or more. */
  int64_t batch;
  /** Steps T, 0 or more; not read for .._PACKED. */
  int64_t length;
  /** Tokens of each sequence [B], 0 to T, in host memory; NULL where all have T, and for .._PACKED. */
  const int32_t *lengths;
  /** .._PACKED: [B + 1] in host memory. Sequence b has the rows offsets[b] to offsets[b + 1] - 1; offsets[0]
   * is 0. NULL for the other orders. */
  const int64_t *offsets;
} orthornn_layout;

/* ---------------------------------------------------------------------------------------------------------
 * Delta product
 * ------------------------------------------------------------------------------------------------------ */

/** Decays of the states. */
enum {
  ORTHORNN_NO_DECAY = 0,
  /** One decay for a head, log_decays [R, H]. */
  ORTHORNN_DECAY_OF_HEAD = 1,
  /** One decay for each row of a state, log_decays [R, H, K]. It needs the recurrent form. */
  ORTHORNN_DECAY_OF_ROW = 2
};

/** Forms of a delta product. */
enum {
  /** One factor after another. */
  ORTHORNN_RECURRENT = 0,
  /** Chunks of factors as matrix products. */
  ORTHORNN_CHUNKED = 1,
  /** The form that the library takes for a layer of these sizes. The layout and the device decide it, and all
   * functions take the same one for the same arguments. */
  ORTHORNN_BEST_FORM = 2
};

/** A delta product and its sizes. For each token S <- diag(e^a) S, then for each of its n factors S <- S +
 * beta k (v - S^T (k * r))^T, and the output is c S^T q. */
typedef struct orthornn_delta_product {
  /** Type of queries, keys, values, removals and outputs: ORTHORNN_F32 or ORTHORNN_F64; ORTHORNN_BF16 for the
   * chunked form on a GPU. Step sizes, decays and states are of the same type, and f32 for bf16. */
  int32_t dtype;
  /** ORTHORNN_RECURRENT, ORTHORNN_CHUNKED or ORTHORNN_BEST_FORM. On a GPU the chunked form needs compute
   * capability 9.0 and takes no ORTHORNN_F64. */
  int32_t form;
  /** 1: keys are divided by their norms first; 0: keys are as they are. */
  int32_t unit_keys;
  /** ORTHORNN_PRECISION_FP32, .._TF32 or .._BF16, of the chunked form of f32 on a GPU. */
  int32_t precision;
  /** ORTHORNN_NO_DECAY, .._DECAY_OF_HEAD or .._DECAY_OF_ROW. */
  int32_t decay;
  /** 1: there are removals r, which need the recurrent form; 0: r is 1. */
  int32_t removals;
  /** Factor c of the outputs. */
  double scale;
  /** Factors of a chunk; 0 for the best number. */
  int64_t chunk;
  /** Largest number of segments of a sequence that a GPU computes at once; 0 for the best number. */
  int64_t segments;
  /** Factors n a token, 1 or more. */
  int64_t factors;
  /** Heads H. */
  int64_t heads;
  /** Size K of queries and keys. */
  int64_t key;
  /** Size V of values. */
  int64_t value;
} orthornn_delta_product;

/** What a delta product reads. */
typedef struct orthornn_delta_inputs {
  /** Queries q [R, H, K]. */
  const void *queries;
  /** Keys k [R, n, H, K]. */
  const void *keys;
  /** Values v [R, n, H, V]. */
  const void *values;
  /** Step sizes beta [R, n, H]. */
  const void *betas;
  /** Logarithms a of the decays, [R, H] or [R, H, K]; NULL for ORTHORNN_NO_DECAY. */
  const void *log_decays;
  /** Removals r [R, n, H, K]; NULL where there are none. */
  const void *removals;
  /** States before the first token [B, H, K, V]; NULL for zeros. */
  const void *initial_states;
} orthornn_delta_inputs;

/** What the backward of a delta product reads and writes. */
typedef struct orthornn_delta_gradients {
  /** Gradient of the outputs, [R, H, V], read. */
  const void *d_outputs;
  /** Gradient of the final states, [B, H, K, V], read; NULL for zeros. */
  const void *d_final_states;
  /** Gradients of the inputs, written; rows of padding get 0. Where the input is NULL the gradient is, too.
   */
  void *d_queries, *d_keys, *d_values, *d_betas, *d_log_decays, *d_removals;
  /** Gradient of the initial states; NULL where it is not wanted. */
  void *d_initial_states;
} orthornn_delta_gradients;

/** Bytes of the array `saved` that a forward fills for its backward. It may allocate memory. */
ORTHORNN_EXPORT orthornn_status orthornn_delta_product_saved(const orthornn_device *device,
                                                             const orthornn_delta_product *product,
                                                             const orthornn_layout *layout, int64_t *bytes);
/** Bytes of workspace of orthornn_delta_product_forward; `keeps` is 1 where that is given `saved`, else 0. It
 * may allocate memory. */
ORTHORNN_EXPORT orthornn_status
orthornn_delta_product_forward_workspace(const orthornn_device *device, const orthornn_delta_product *product,
                                         const orthornn_layout *layout, int32_t keeps, int64_t *bytes);
/** Computes outputs [R, H, V], 0 in rows of padding, and final states [B, H, K, V], which may be NULL and may
 * be the initial states.
 *
 * - saved: as many bytes as orthornn_delta_product_saved says, on a GPU at a multiple of 256 bytes; NULL,
 * with 0 bytes, where no backward follows. */
ORTHORNN_EXPORT orthornn_status orthornn_delta_product_forward(
    const orthornn_device *device, const orthornn_delta_product *product, const orthornn_layout *layout,
    const orthornn_delta_inputs *inputs, void *outputs, void *final_states, void *saved, int64_t saved_bytes,
    void *workspace, int64_t workspace_bytes);
/** Bytes of workspace of orthornn_delta_product_backward. It may allocate memory. */
ORTHORNN_EXPORT orthornn_status orthornn_delta_product_backward_workspace(
    const orthornn_device *device, const orthornn_delta_product *product, const orthornn_layout *layout,
    int64_t *bytes);
/** Computes the gradients of a forward, from its inputs and what it saved. `saved` has the same numbers
 * afterwards, but one thread at a time may use it; on a GPU it is at a multiple of 256 bytes. The initial
 * states are not read. */
ORTHORNN_EXPORT orthornn_status orthornn_delta_product_backward(
    const orthornn_device *device, const orthornn_delta_product *product, const orthornn_layout *layout,
    const orthornn_delta_inputs *inputs, const orthornn_delta_gradients *gradients, void *saved,
    int64_t saved_bytes, void *workspace, int64_t workspace_bytes);
/** Goes on by one token of each of `batch` sequences, in the recurrent form whatever `product` says: R = B.
 * `states` [B, H, K, V] are read and overwritten. It needs no workspace. */
ORTHORNN_EXPORT orthornn_status orthornn_delta_product_step(const orthornn_device *device,
                                                            const orthornn_delta_product *product,
                                                            int64_t batch,
                                                            const orthornn_delta_inputs *inputs, void *states,
                                                            void *outputs);

/* ---------------------------------------------------------------------------------------------------------
 * Rank-one chain
 * ------------------------------------------------------------------------------------------------------ */

/** A chain s_t = (I + q_t k_t^T) s_{t-1} with outputs s_{t-1}^T k_t, where q = alpha q' and k = beta k'. */
typedef struct orthornn_rank_one_chain {
  /** ORTHORNN_F32 or ORTHORNN_F64. */
  int32_t dtype;
  /** 0. */
  int32_t reserved;
  /** Largest number of factors in a chunk; 0 for 32. */
  int64_t chunk;
  /** Heads H. */
  int64_t heads;
  /** Size D of the vectors. */
  int64_t size;
  /** Columns M of a state. */
  int64_t columns;
} orthornn_rank_one_chain;

/** What a chain reads. */
typedef struct orthornn_chain_inputs {
  /** Left vectors q' [R, H, D]. */
  const void *left;
  /** Right vectors k' [R, H, D]. */
  const void *right;
  /** Scales alpha [R, H]; NULL for ones. */
  const void *left_scales;
  /** Scales beta [R, H]; NULL for ones. */
  const void *right_scales;
  /** States before the first factor [B, H, D, M]. */
  const void *initial_states;
} orthornn_chain_inputs;

/** What the backward of a chain reads and writes. */
typedef struct orthornn_chain_gradients {
  /** Gradient of the outputs, [R, H, M], read. */
  const void *d_outputs;
  /** Gradient of the final states, [B, H, D, M], read; NULL for zeros. */
  const void *d_final_states;
  /** Gradients of the vectors, [R, H, D], written; rows of padding get 0. */
  void *d_left, *d_right;
  /** Gradients of the scales, [R, H], written; NULL where the scales are. */
  void *d_left_scales, *d_right_scales;
  /** Gradient of the initial states; NULL where it is not wanted. */
  void *d_initial_states;
} orthornn_chain_gradients;

/** Bytes of the array `saved` that a forward fills for its backward. It may allocate memory. */
ORTHORNN_EXPORT orthornn_status orthornn_rank_one_chain_saved(const orthornn_device *device,
                                                              const orthornn_rank_one_chain *chain,
                                                              const orthornn_layout *layout, int64_t *bytes);
/** Bytes of workspace of orthornn_rank_one_chain_forward; `keeps` is 1 where that is given `saved`, else 0.
 * It may allocate memory. */
ORTHORNN_EXPORT orthornn_status
orthornn_rank_one_chain_forward_workspace(const orthornn_device *device, const orthornn_rank_one_chain *chain,
                                          const orthornn_layout *layout, int32_t keeps, int64_t *bytes);
/** Computes outputs [R, H, M], 0 in rows of padding, and final states [B, H, D, M], which may be NULL and may
 * be the initial states. `saved` is as in orthornn_delta_product_forward. */
ORTHORNN_EXPORT orthornn_status orthornn_rank_one_chain_forward(
    const orthornn_device *device, const orthornn_rank_one_chain *chain, const orthornn_layout *layout,
    const orthornn_chain_inputs *inputs, void *outputs, void *final_states, void *saved, int64_t saved_bytes,
    void *workspace, int64_t workspace_bytes);
/** Bytes of workspace of orthornn_rank_one_chain_backward. It may allocate memory. */
ORTHORNN_EXPORT orthornn_status orthornn_rank_one_chain_backward_workspace(
    const orthornn_device *device, const orthornn_rank_one_chain *chain, const orthornn_layout *layout,
    int64_t *bytes);
/** Computes the gradients of a forward, as orthornn_delta_product_backward does. */
ORTHORNN_EXPORT orthornn_status orthornn_rank_one_chain_backward(
    const orthornn_device *device, const orthornn_rank_one_chain *chain, const orthornn_layout *layout,
    const orthornn_chain_inputs *inputs, const orthornn_chain_gradients *gradients, void *saved,
    int64_t saved_bytes, void *workspace, int64_t workspace_bytes);

/* ---------------------------------------------------------------------------------------------------------
 * Models
 *
 * Functions of models allocate memory as they need it. All their arrays are host memory, whatever the device
 * of the model is. One thread at a time may use a model and its generators.
 * ------------------------------------------------------------------------------------------------------ */

/** A model in memory. */
typedef struct orthornn_model orthornn_model;

/** Loads a model file. `precision` is one of ORTHORNN_PRECISION_.. . The stream of the device is not used.
 * Give the model back by orthornn_model_free. */
ORTHORNN_EXPORT orthornn_status orthornn_model_load(const char *path, const orthornn_device *device,
                                                    int32_t precision, orthornn_model **model);
/** Makes a model from its options, the JSON text that is "model" in orthornn_model_describe, with parameters
 * drawn from `seed`. An encoder-decoder has "kind": "encoder_decoder" among its options. */
ORTHORNN_EXPORT orthornn_status orthornn_model_create(const char *options, uint64_t seed,
                                                      const orthornn_device *device, int32_t precision,
                                                      orthornn_model **model);
/** Says whether a layer can have these options, the JSON text of an element of "cells" among the options of a
 * model: ORTHORNN_OK, or ORTHORNN_INVALID_VALUE with a message that names the option. */
ORTHORNN_EXPORT orthornn_status orthornn_layer_check(const char *options);
/** Gives a model back, whose generators must be gone. NULL is allowed. */
ORTHORNN_EXPORT void orthornn_model_free(orthornn_model *model);
/** Writes the model without a training to a file, which is replaced in one step. A task that the model was
 * loaded with is not written. */
ORTHORNN_EXPORT orthornn_status orthornn_model_save(orthornn_model *model, const char *path);

/** Describes the model as the text of a JSON object, which lives until the model is given back:
 *
 *     {"kind": "sequence-model" or "encoder-decoder",
 *      "model": its options, as in a model file,
 *      "parameters": [{"name": .., "shape": [..]}, ..],
 *      "input": "features" or "symbols",
 *      "input_size": numbers K of a step as callers give them, or number of symbols,
 *      "outputs": numbers C of an output,
 *      "every_step": whether each step has an output,
 *      "loss": name of the loss,
 *      "states": [{"name": .., "layer": .., "shape": that of one sequence}, ..],
 *      "causal": whether the model has states at every step,
 *      "step_by_step": whether it has generators: it is causal and reads steps in the order of the caller,
 *      "class_names": [..], as far as the model knows them,
 *      "task": {"name": .., "config": {..}} or null, "steps": .. or null, "seed": .., "batch": ..,
 *      "best": {"loss": .., "step": ..} or null, "library": ..}
 *
 * An encoder-decoder has neither of "input" to "class_names". */
ORTHORNN_EXPORT orthornn_status orthornn_model_describe(orthornn_model *model, const char **json);

/** Copies the parameter of a name, of `count` numbers, to `values`. */
ORTHORNN_EXPORT orthornn_status orthornn_model_get_parameter(orthornn_model *model, const char *name,
                                                             float *values, int64_t count);
/** Overwrites the parameter of a name by `count` numbers. The next computation reads it, a step of a running
 * generator too. That returns ORTHORNN_INVALID_VALUE for numbers that the parameter cannot have, such as a
 * reflection vector of zeros. */
ORTHORNN_EXPORT orthornn_status orthornn_model_set_parameter(orthornn_model *model, const char *name,
                                                             const float *values, int64_t count);

/** Writes the shape of the outputs for `batch` sequences of `length` steps, [T, B, C] or [B, C], to the first
 * `rank` of shape[3]. */
ORTHORNN_EXPORT orthornn_status orthornn_model_output_shape(orthornn_model *model, int64_t length,
                                                            int64_t batch, int64_t shape[3], int32_t *rank);
/** Computes outputs, as `orthornn predict` does.
 *
 * - features [T, B, K]: as the training data had them. A model of own data normalizes them, and takes NaN for
 *   what is missing where it was trained so. NULL for a model that reads symbols.
 * - symbols [T, B]: NULL for a model that reads features.
 * - lengths [B]: steps of each sequence, 0 to T; NULL where all have T. Features and symbols beyond the end
 *   of a sequence do not count. A model that reads in an order of its own takes whole sequences alone.
 * - outputs: in the units of the training targets, of the shape that orthornn_model_output_shape says.
 * - last_states: an array for each state of "states" in the description, [B, ..], gets the states after the
 *   last step. NULL where they are not wanted.
 * - states: an array for each state, [T, B, ..], gets the states after every step, 0 beyond the end of a
 *   sequence. A model that reads in an order of its own, such as that of permuted MNIST, has them in that
 *   order. The model goes through the steps one by one for it. NULL where they are not wanted. */
ORTHORNN_EXPORT orthornn_status orthornn_model_outputs(orthornn_model *model, int64_t length, int64_t batch,
                                                       const float *features, const int32_t *symbols,
                                                       const int32_t *lengths, float *outputs,
                                                       float *const *last_states, float *const *states);

/** Translates sentences by an encoder-decoder that was trained with `train translate`: `json` gets the text
 * of a JSON array with an array of at most `beam` translations for each sentence, the best one first,
 *
 *     {"text": .., "log_probability": .., "score": .., "complete": ..}.
 *
 * The text lives until the next call for this model. */
ORTHORNN_EXPORT orthornn_status orthornn_model_translate(orthornn_model *model, const char *const *sentences,
                                                         int64_t count, int64_t beam, const char **json);

/** Draws a text of so many symbols by a model that was trained on texts, as `orthornn predict --generate`
 * does.
 *
 * - prompt: text in UTF-8 that comes before and is not repeated; "" for none.
 * - symbols: symbols to draw, 1 or more.
 * - temperature: divides the logits before a symbol is drawn; 0 takes the likeliest one.
 * - seed: of the draws. The same arguments give the same text.
 *
 * `text` gets the text, which lives until the next call for this model, and `bytes` its length: a model of
 * bytes may write a NUL, and what is no UTF-8. */
ORTHORNN_EXPORT orthornn_status orthornn_model_generate(orthornn_model *model, const char *prompt,
                                                        int64_t symbols, double temperature, uint64_t seed,
                                                        const char **text, int64_t *bytes);

/** A model that is given one step after another. */
typedef struct orthornn_generator orthornn_generator;

/** Starts `batch` sequences in their initial states. The model must outlive the generator. Returns
 * ORTHORNN_INVALID_VALUE for a model that is not "step_by_step" in its description. */
ORTHORNN_EXPORT orthornn_status orthornn_generator_create(orthornn_model *model, int64_t batch,
                                                          orthornn_generator **generator);
/** Gives a generator back. NULL is allowed. */
ORTHORNN_EXPORT void orthornn_generator_free(orthornn_generator *generator);
/** Goes on by one step of features [B, K] or symbols [B], the other one NULL, and writes outputs [B, C].
 * Features and outputs are in the units of orthornn_model_outputs. */
ORTHORNN_EXPORT orthornn_status orthornn_generator_step(orthornn_generator *generator, const float *features,
                                                        const int32_t *symbols, float *outputs);
/** Starts all sequences anew. */
ORTHORNN_EXPORT orthornn_status orthornn_generator_reset(orthornn_generator *generator);
/** Copies a state [B, ..], by its place in "states" of the description. */
ORTHORNN_EXPORT orthornn_status orthornn_generator_get_state(orthornn_generator *generator, int64_t state,
                                                             float *values, int64_t count);
/** Overwrites a state [B, ..], by its place in "states" of the description. */
ORTHORNN_EXPORT orthornn_status orthornn_generator_set_state(orthornn_generator *generator, int64_t state,
                                                             const float *values, int64_t count);

#ifdef __cplusplus
}
#endif

#endif
