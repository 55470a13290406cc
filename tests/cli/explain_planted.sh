# Causes that are planted in profiles come back.  The profiles are made here in the form of PyTorch's profiler: kernels
# with DeepEP's names whose times are the twin's own, with the fault planted; arithmetic and copies between and beside
# them.  What is told must follow from the profiles alone.
ranks=16
late_rank=-1 late_us=0 late_by=work gap_us=0 beside='' factor=1 only='' routing=''
case='--num-tokens 128'

# Profiles rank*.json of what simulate says with the options given.
profiles() {
    rm -f rank*.json
    arrival=$(awk -v n=$ranks -v late=$late_rank -v us=$late_us \
        'BEGIN { for (r = 0; r < n; r++) printf "%s%sus", r ? "|" : "", r == late ? us : 0 }')
    "$EPTWIN" simulate --cluster h800-cx7 --num-ranks $ranks $case $routing --per-rank --arrival "$arrival" --format csv "$@" \
        >record.csv || return
    awk -F, -v n=$ranks -v late=$late_rank -v late_us=$late_us -v by=$late_by -v gap=$gap_us -v beside="$beside" -v factor=$factor '
        function event(r, cat, name, ts, dur, stream, blocks, corr) {
            printf ",\n{\"ph\": \"X\", \"cat\": \"%s\", \"name\": \"%s\", \"pid\": 0, \"tid\": %d, \"ts\": %.3f, \"dur\": %.3f, " \
                   "\"args\": {\"device\": 0, \"stream\": %d, \"correlation\": %d, \"grid\": [%d, 1, 1]}}",
                cat, name, stream, ts, dur, stream, corr, blocks > ("rank" r ".json") }
        BEGIN { ll = "void deep_ep::internode_ll::"; ht = "void deep_ep::internode::"
                kernel["dispatch"] = ll "dispatch<true, 7168>(void*)"; kernel["combine"] = ll "combine<false, 7168, 11>(void*)"
                gemm = "void deep_gemm::fp8_gemm_kernel<7168>(float*)" }
        /^# kernel: normal/ { normal = 1 }
        /^# num-sms:/ { split($0, w, " "); sms = w[3] }
        $3 == "time_us" && $2 != "all" { if (!($1 in order)) { order[$1] = ++phases; phase[phases] = $1 } us[$1, $2] = $4 }
        END { if (normal) { kernel["layout"] = "void deep_ep::layout::get_dispatch_layout<256>(long)"
                  kernel["notify"] = ht "notify_dispatch<false, 2>(int)"; kernel["dispatch"] = ht "dispatch<false, 2, false>(int)"
                  kernel["cached_notify_combine"] = ht "cached_notify<false>(int)"; kernel["combine"] = ht "combine<false, 2>(int)" }
              for (r = 0; r < n; r++)
                  printf "{\"schemaVersion\": 1, \"deviceProperties\": [{\"id\": 0, \"name\": \"NVIDIA H800\"}], " \
                         "\"distributedInfo\": {\"rank\": %d, \"world_size\": %d}, " \
                         "\"traceEvents\": [\n{\"ph\": \"M\", \"name\": \"x\"}", r, n > ("rank" r ".json")
              for (layer = 0; layer < 3; layer++) for (p = 1; p <= phases; p++) {
                  for (r = 0; r < n; r++) {
                      heavy = r == late && by == "work" ? late_us : 0; idle = gap + (r == late && by != "work" ? late_us : 0)
                      corr++
                      event(r, "kernel", gemm, at, 200 + heavy, 7, 132, 1000000 + corr)
                      begin = at + 201 + heavy + idle; dur = us[phase[p], r] * factor
                      event(r, "cuda_runtime", "cudaLaunchKernel", idle ? begin - 6 : at - 20, 4, 0, 0, corr)
                      event(r, "kernel", kernel[phase[p]], begin, dur, 20, normal ? sms : 132, corr)
                      if (beside == "gemm") event(r, "kernel", gemm, begin + 1, dur - 2, 7, 100, 2000000 + corr)
                      if (beside == "copy") event(r, "gpu_memcpy", "Memcpy DtoD", begin + 1, dur - 2, 7, 0, 2000000 + corr)
                      if (begin + dur > latest) latest = begin + dur
                  }
                  at = latest + 5
              }
              for (r = 0; r < n; r++) print "]}" > ("rank" r ".json") }' record.csv
}

# The sentences about what is planted, without the tables.
told() {
    echo "== $1"
    "$EPTWIN" explain-trace ${only:-rank*.json} --cluster h800-cx7 $case $routing --output split.csv | sed -n '/^Wire/,$p'
}

profiles; told 'nothing planted'
late_rank=5 late_us=80; profiles; told '1: rank 5 has more to compute'
only=rank12.json; told '2: the same, seen from rank 12 alone'
only='' late_rank=3 late_by=idle; profiles; told '3: the host of rank 3 launches late'
late_rank=-1 gap_us=60; profiles; told '4: all hosts launch late'
gap_us=0; profiles --fault 'nic:n1.g3 rate=0.5'; told '5: the NIC of rank 11 at half its rate'
profiles '--set=nic.rate=25 GB/s'; told '6: all NICs at half their rate'
beside=gemm factor=1.3; profiles; told '7: a GEMM beside each kernel'
beside=copy factor=1.6; profiles; told '8: a copy beside each kernel'
beside='' factor=1
"$EPTWIN" trace generate hot.ept --num-ranks $ranks --num-experts 288 --num-topk 8 --num-tokens 128 --routing zipf:1.2 >/dev/null
routing='--trace hot.ept'; profiles; told '9: hot experts'
routing='' case='--kernel normal --num-tokens 1024 --num-sms 6'; profiles; case='--num-tokens 1024'; told '10: few SMs'
