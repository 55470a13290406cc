# All of measuring GPUs but the GPUs: a library that answers as the driver does, and where it fails, one line.
LD_LIBRARY_PATH=$PWD
export LD_LIBRARY_PATH
library() { ${CC:-cc} -std=c11 -D_GNU_SOURCE -Wall -Wextra -shared -fPIC -o "$@"; }
build() { library libcuda.so.1 source/tests/cli/pretend_cuda.c "$@"; }
build_gemms() { library libcublasLt.so.13 source/tests/cli/pretend_cublaslt.c "$@"; }
measure() { "$EPTWIN" measure --fabric cuda --quick --repeat 2 "$@"; echo "exit $?"; }
build
build_gemms
PRETEND_GPUS=4 measure --output four.csv
grep '^#' four.csv | grep -vE '^# (version|machine|cpus)'
grep -v '^#' four.csv | grep -vE '_(min|max)[_,]' | cut -d' ' -f1 | sort | uniq -c
grep -E '^(clock|copy_5 sms=1 warps=1 at=l2|incast copy_5 gpus=4 sms=4/flow|gpu_barrier|flag_release_sys pairs=8 .*peer)' four.csv
grep -E '^gemm dtype=fp8 .*k=2048' four.csv
PRETEND_FAIL='cuEventElapsedTime 4' measure --only gemm --output no.csv
build_gemms -DPRETEND_UNABLE
measure --only gemm --output no.csv
measure --only peer-barrier --output no.csv
measure --only clock --format json | grep -A6 '"metric"' | head -4
PRETEND_GPUS=4 measure --ranks 2 --only peer-barrier --output two.csv
tail -1 two.csv
measure --ranks 3 --output no.csv
PRETEND_GPUS=0 measure --output no.csv
PRETEND_CAPABILITY=8 measure --output no.csv
PRETEND_GPUS=2 PRETEND_ALONE=1 measure --output no.csv
for fail in 'cuModuleLoadDataEx 1' 'cuMemAlloc_v2 3' 'cuLaunchKernelEx 0' 'cuLaunchKernelEx 500' 'cuCtxSynchronize 700' \
            'cuMemcpyDtoH_v2 40'; do
    PRETEND_GPUS=2 PRETEND_FAIL=$fail measure --output no.csv
done
build -DPRETEND_OLD
measure --output no.csv
"$EPTWIN" fit four.csv | grep -E '^(sms|poll|hbm-rate|egress-rate|ingress-rate) '
ls
