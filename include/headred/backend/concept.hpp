// What a backend must offer, and the optional offers that algorithms look for.
#pragma once

#include <concepts>
#include <cstddef>

#include <headred/core/view.hpp>

namespace headred {
namespace detail {

// Bodies that a backend must be able to run: named structs, as a GPU needs them.
struct probe_body {
  HEADRED_FUNCTION void operator()(index_t) const {}
};
struct probe_term {
  HEADRED_FUNCTION double operator()(index_t, index_t) const { return 0; }
};
struct probe_combine {
  HEADRED_FUNCTION double operator()(double a, double) const { return a; }
};
struct probe_sink {
  HEADRED_FUNCTION void operator()(index_t, double) const {}
};
struct probe_task {
  void operator()(index_t, int) const {}
};

}  // namespace detail

/// A backend: its type is the policy, its object the resources; passed first, by reference.
///   space                                   where its memory lies: host_space or device_space
///   allocate(bytes), deallocate(p, bytes)   memory in that space, aligned to 64 bytes at least
///   upload(dst, src, bytes)                 host -> space;  download(dst, src, bytes)  space -> host
///   synchronize()                           all work issued so far is done
///   for_each(n, f)                          f(i) for i in [0,n), in any order, possibly at once
///   reduce(rows, cols, init, term, combine, sink)
///                                           sink(r, init (+) term(r,0) (+) ... (+) term(r,cols-1)), (+) = combine,
///                                           in an order that depends on cols alone
///   gemm(alpha, a, b, beta, c)              c = alpha a b + beta c for each of N matrices, float and double;
///                                           a (N,M,K), b (N,K,P), c (N,M,P), any strides; beta = 0 does not read c;
///                                           `gemm_by_rows` serves a backend that has no better way
/// Work is issued in order; results never depend on how many threads carry it out.
template <class B>
concept backend =
    requires(B& be, void* p, const void* q, std::size_t bytes, index_t n,
             tensor_view<const float, 3, typename B::space> a, tensor_view<float, 3, typename B::space> c,
             tensor_view<const double, 3, typename B::space> x, tensor_view<double, 3, typename B::space> z) {
      typename B::space;
      { be.allocate(bytes) } -> std::same_as<void*>;
      be.deallocate(p, bytes);
      be.upload(p, q, bytes);
      be.download(p, q, bytes);
      be.synchronize();
      be.for_each(n, detail::probe_body{});
      be.reduce(n, n, 0.0, detail::probe_term{}, detail::probe_combine{}, detail::probe_sink{});
      be.gemm(1.f, a, a, 0.f, c);
      be.gemm(1., x, x, 0., z);
    };

/// A backend whose memory is the host's.
template <class B>
concept host_backend = backend<B> && std::same_as<typename B::space, host_space>;

/// A host backend that runs independent tasks on numbered workers: `run(n, f)` calls f(task, worker) once for each task
/// in [0,n), worker in [0, workers()), never two tasks of one worker at once. The vectorised CPU kernels need this.
template <class B>
concept task_backend = host_backend<B> && requires(B& be, index_t n) {
  { be.workers() } -> std::convertible_to<int>;
  be.run(n, detail::probe_task{});
};

}  // namespace headred
