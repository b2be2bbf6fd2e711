#include "tessera/blas/library.h"

#include <dlfcn.h>
#include <fmt/ranges.h>

#include <vector>

namespace tessera::blas {

namespace {

// In order of preference. The system chooses the implementation of the last one, possibly the slow reference BLAS.
constexpr const char* kFiles[] = {"libopenblas.so.0", "libmkl_rt.so.2", "libblis.so.4", "libdnnl.so.3",
                                  "libdnnl.so.2",     "libcblas.so.3",  "libblas.so.3"};

// Values of CBLAS's enumerations.
constexpr int kRowMajor = 101, kNoTrans = 111, kTrans = 112;

template <class Function>
Function symbol(void* handle, const char* name) {
  return reinterpret_cast<Function>(::dlsym(handle, name));
}

struct DnnlVersion {
  int major, minor, patch;
};

}  // namespace

Result<std::shared_ptr<const Library>> Library::open(const std::string& file) {
  std::vector<std::string> files{file};
  if (file.empty()) files.assign(std::begin(kFiles), std::end(kFiles));
  for (const std::string& name : files) {
    void* handle = ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);  // never closed: the library may have threads
    if (handle == nullptr) continue;
    const std::shared_ptr<Library> library(new Library(name));
    if (library->bind(handle)) return library;
  }
  return fail(ErrorCode::not_found, "no library of matrix products (looked for {})", fmt::join(files, ", "));
}

Result<> Library::bind(void* handle) {
  cblas_ = symbol<CblasSgemm>(handle, "cblas_sgemm");
  dnnl_ = symbol<DnnlSgemm>(handle, "dnnl_sgemm");
  if (cblas_ == nullptr && dnnl_ == nullptr) return fail(ErrorCode::not_found, "{} has no sgemm", file_);
  // Products run on the backend's threads, each with its own rows, so the library must not start threads.
  for (const char* name : {"openblas_set_num_threads", "MKL_Set_Num_Threads"})
    if (const auto set_threads = symbol<SetThreads>(handle, name)) set_threads(1);
  if (const auto set_threads = symbol<void (*)(int64_t)>(handle, "bli_thread_set_num_threads")) set_threads(1);
  set_omp_threads_ = symbol<SetThreads>(handle, "omp_set_num_threads");
  if (const auto config = symbol<const char* (*)()>(handle, "openblas_get_config")) version_ = config();
  if (const auto version = symbol<const DnnlVersion* (*)()>(handle, "dnnl_version"))
    version_ = fmt::format("oneDNN {}.{}.{}", version()->major, version()->minor, version()->patch);
  return {};
}

void Library::enter_thread() const {
  if (set_omp_threads_ != nullptr) set_omp_threads_(1);
}

bool Library::multiply(const Product& p) const {
  if (cblas_ == nullptr)
    return dnnl_('N', 'T', p.n_tokens, p.n_rows, p.k, 1.0f, p.x, p.k, p.w, p.k, 0.0f, p.out, p.out_stride) == 0;
  cblas_(kRowMajor, kNoTrans, kTrans, static_cast<int>(p.n_tokens), static_cast<int>(p.n_rows), static_cast<int>(p.k),
         1.0f, p.x, static_cast<int>(p.k), p.w, static_cast<int>(p.k), 0.0f, p.out, static_cast<int>(p.out_stride));
  return true;
}

}  // namespace tessera::blas
