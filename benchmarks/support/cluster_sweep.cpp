// cluster_sweep MATRIX.npy MIN MAX kmeans|cluster_qr THREADS: clusters of a distance matrix for every k of a range, as JSON:
// seconds of the whole (decomposition, labels, silhouettes; median of 5), peak memory, labels of every k. compare_clusters.py runs it.
// MIN = MAX of many points: the spectral vectors that are needed alone.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <fstream>
#include <string>
#include <vector>

#include <headred/backend/cpu.hpp>
#include <headred/cluster/auto_clusters.hpp>
#include <headred/cluster/leading_embedding.hpp>
#include <headred/io/mapped_file.hpp>
#include <headred/io/npy_header.hpp>

namespace hr = headred;
using hr::index_t;

// The most memory that this process held, 0 where the system does not say. getrusage would count its parent's before exec.
static double peak_megabytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("VmHWM:")) return std::stod(line.substr(6)) / 1024;
  return 0;
}

int main(int count, char** words) {
  try {
    if (count != 6) throw hr::argument_error("expected MATRIX.npy MIN MAX kmeans|cluster_qr THREADS");
    const index_t least = std::stol(words[2]), most = std::stol(words[3]);
    const auto method = std::string(words[4]) == "kmeans" ? hr::labelling::kmeans : hr::labelling::cluster_qr;
    hr::cpu be{{.threads = std::stoi(words[5])}};
    // the file as it lies mapped: a copy would be the larger part of the memory
    const hr::mapped_file file(words[1]);
    const hr::npy_header header = hr::read_npy_header(file.bytes(), file.name());
    if (header.type != hr::dtype::f64 || header.shape.size() != 2 || header.fortran_order)
      throw hr::file_error(file.name(), "expected a matrix of float64 in C order");
    const hr::tensor_view<const double, 2> distances(
        reinterpret_cast<const double*>(file.bytes().data() + header.data_offset), {header.shape[0], header.shape[1]});
    const bool large = least == most && distances.extent(0) > 1000;
    std::vector<double> seconds;
    std::vector<std::vector<index_t>> labels;
    for (int round = 0; round < (large ? 3 : 5); ++round) {
      labels.clear();
      const auto start = std::chrono::steady_clock::now();
      if (large) {
        const hr::leading_embedding<hr::cpu> embedding(be, distances, most);
        labels.push_back(embedding.clusters({.count = most, .method = method}).labels);
      } else {
        const hr::spectral_embedding<hr::cpu> embedding(be, distances);
        for (index_t k = least; k <= most; ++k) {
          const auto found = embedding.clusters({.count = k, .method = method});
          if (k < embedding.heads()) hr::silhouette(be, embedding.distances(), found);
          labels.push_back(found.labels);
        }
      }
      seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    }
    std::sort(seconds.begin(), seconds.end());
    std::printf("{\"seconds\": %.6f, \"megabytes\": %.1f, \"labels\": [", seconds[seconds.size() / 2],
                peak_megabytes());
    for (std::size_t k = 0; k < labels.size(); ++k) {
      std::printf("%s[", k > 0 ? ",\n" : "");
      for (std::size_t i = 0; i < labels[k].size(); ++i) std::printf("%s%ld", i > 0 ? "," : "", long(labels[k][i]));
      std::printf("]");
    }
    std::printf("]}\n");
    return 0;
  } catch (const std::exception& problem) {
    std::fprintf(stderr, "cluster_sweep: %s\n", problem.what());
    return 1;
  }
}
