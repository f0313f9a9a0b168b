//go:build linux

package main

import (
	"context"
	"fmt"
	"strconv"
)

// pick is for the sizes of measurements.
func (o options) pick(full, quick int) int {
	if o.quick {
		return quick
	}
	return full
}

// volume is how much is moved where that is measured, in bytes.
func (o options) volume() int64 { return int64(o.pick(1<<30, 16<<20)) }

func (o options) roundsOr(n int) int {
	switch {
	case o.rounds > 0:
		return o.rounds
	case o.quick:
		return 1
	}
	return n
}

const memoryName = "memory"

// names of everything that can be measured, in the order in which it is.
func names() []string {
	list := []string{}
	for _, x := range new(site).experiments(options{}) {
		list = append(list, x.name)
	}
	return append(list, policyName, memoryName, nodesName)
}

// maxAdded is how much longer a command may take on a node, in ms. To sign and verify
// its requests takes 0.12 ms of that.
const maxAdded = 0.7

// maxEnforced is how much longer a command may take, in ms, if the kernel enforces
// what it may execute and write.
const maxEnforced = 0.15

// maxHelp is how long corral may take to say what it is for, in ms: it is the time of
// starting it.
const maxHelp = 12

// maxWarm is how long the first command of a sandbox from the pool may take, and
// maxBurst how long as many at a time as a pool of poolSize has, in ms.
const (
	maxWarm  = 5
	maxBurst = 1000
)

const (
	block   = 64 << 10 // of dd
	workers = 16
)

func produce(n int64) job {
	return job{shell: "exec dd if=/dev/zero bs=64k count=" + strconv.FormatInt(n/block, 10) + " 2>/dev/null", output: n}
}

// Output of another kind is in a file, which the first command makes.
const (
	fileSize     = 16 << 20
	copiesPrefix = "/tmp/corral-bench-"
	noise        = "cat /dev/urandom"
	requests     = `awk 'BEGIN{for(;;i++)printf "2026-01-02T15:%02d:%02d.%03dZ level=info msg=\"request done\" path=/v1/items/%d status=200 took=%dms\n",i/60%60,i%60,rand()*1000,rand()*1e6,rand()*99}'`
)

func copies(what, name string) func(int64) job {
	return func(n int64) job {
		size := min(n, fileSize)
		return job{shell: fmt.Sprintf("f=%s%s-%d; [ -f $f ] || { %s 2>/dev/null | head -c %d >$f.new; mv $f.new $f; }; i=0; while [ $i -lt %d ]; do cat $f; i=$((i+1)); done", copiesPrefix, name, size, what, size, n/size), output: n}
	}
}

func consume(n int64) job {
	return job{shell: "exec dd of=/dev/null bs=64k 2>/dev/null", input: n}
}

// experiments is everything that is measured in rounds.
func (s *site) experiments(o options) []experiment {
	noop := job{shell: "true"}
	volume := o.volume()
	all := s.pick(boxLocal, boxFDs, boxFrames, boxEngine, hostLocal, hostWarden, hostInProcess)
	return []experiment{
		{
			name: "latency", title: "latency of sh -lc true", unit: "ms",
			rounds: o.roundsOr(40), reps: o.pick(24, 3),
			places: all, value: latency(noop),
			checks: []check{
				{over: boxFDs, under: boxLocal, atMost: 1.3},
				{over: boxEngine, under: boxFDs, atLeast: 20},
				{over: boxEngine, under: boxFrames, atLeast: 20},
				{over: boxFrames, under: boxLocal},
				{over: hostWarden, under: hostLocal},
				{over: hostInProcess, under: hostLocal},
			},
		},
		{
			name: "stdout", title: "1 GiB of output, as fast as it comes", unit: "MB/s",
			rounds: o.roundsOr(7), reps: 1,
			places: all, value: bandwidth(volume, produce),
			checks: []check{
				{over: boxFDs, under: boxLocal, atLeast: 0.75},
				{over: hostWarden, under: hostLocal, atLeast: 0.75},
				{over: boxFrames, under: boxEngine, atLeast: 1},
			},
		},
		{
			name: "stdout-log", title: "1 GiB of output, the log of a server", unit: "MB/s",
			rounds: o.roundsOr(7), reps: 1,
			places: s.pick(boxFrames, boxEngine), value: bandwidth(volume, copies(requests, "log")),
			checks: []check{{over: boxFrames, under: boxEngine, atLeast: 1}},
		},
		{
			name: "stdout-noise", title: "1 GiB of output that cannot be packed", unit: "MB/s",
			rounds: o.roundsOr(7), reps: 1,
			places: s.pick(boxFrames, boxEngine), value: bandwidth(volume, copies(noise, "noise")),
			checks: []check{{over: boxFrames, under: boxEngine}},
		},
		{
			name: "stdin", title: "1 GiB of input, as fast as it is taken", unit: "MB/s",
			rounds: o.roundsOr(7), reps: 1,
			places: all, value: bandwidth(volume, consume),
			checks: []check{
				{over: boxFDs, under: boxLocal},
				{over: hostWarden, under: hostLocal},
				{over: boxFrames, under: boxEngine, atLeast: 1},
			},
		},
		{
			name: "gvisor", title: "sh -lc true in gVisor", unit: "ms",
			rounds: o.roundsOr(15), reps: o.pick(16, 1),
			places: s.pick(gvisorInside, gvisorFDs, gvisorFrames, gvisorEngine), value: latency(noop),
			checks: []check{
				{over: gvisorFDs, under: gvisorInside, atMost: 1.15},
				{over: gvisorEngine, under: gvisorFDs},
			},
		},
		{
			name: "gvisor-output", title: "1 GiB of output in gVisor, as fast as it comes", unit: "MB/s",
			rounds: o.roundsOr(5), reps: 1,
			places: s.pick(gvisorFDs, gvisorFrames, gvisorEngine), value: bandwidth(volume, produce),
			checks: []check{
				{over: gvisorFDs, under: gvisorEngine, atLeast: 1.5},
				{over: gvisorFrames, under: gvisorEngine},
			},
		},
		{
			name: "parallel", title: strconv.Itoa(workers) + " at a time, sh -lc true", unit: "commands/s",
			rounds: o.roundsOr(15), reps: 1,
			places: s.pick(boxLocal, boxFDs, boxFrames, hostLocal, hostWarden, hostInProcess),
			value:  throughput(noop, workers, o.pick(60, 1)*workers),
			checks: []check{
				{over: boxFDs, under: boxLocal, atLeast: 0.8},
				{over: hostWarden, under: hostLocal},
			},
		},
		{
			name: "http", title: "POST /v1/exec of true in a sandbox, and sh -lc true", unit: "ms",
			rounds: o.roundsOr(20), reps: o.pick(24, 3),
			places: s.pick(boxLocal, boxFDs, boxHTTP), value: latency(noop),
			checks: []check{
				{over: boxHTTP, under: boxLocal, atMost: 2},
				{over: boxHTTP, under: boxFDs},
			},
		},
		{
			name: "profile", title: "sh -lc true, and with Debian's profile", unit: "ms",
			rounds: o.roundsOr(20), reps: o.pick(24, 3),
			places: s.pick(boxFDs, boxDebian, boxSnapshot), value: latency(noop),
			checks: []check{
				{over: boxFDs, under: boxDebian, atMost: 0.45},
				{over: boxSnapshot, under: boxDebian, atMost: 0.5},
			},
		},
		{
			name: "envd", title: "sh -lc true through HTTP", unit: "ms",
			rounds: o.roundsOr(20), reps: o.pick(24, 3),
			places: s.pick(boxHTTP, boxEnvd), value: latency(noop),
			checks: []check{{over: boxHTTP, under: boxEnvd, atMost: 0.5}},
		},
		{
			name: "envd-parallel", title: "8 at a time, sh -lc true through HTTP", unit: "commands/s",
			rounds: o.roundsOr(7), reps: 1,
			places: s.pick(boxHTTP, boxEnvd), value: throughput(noop, 8, o.pick(40, 1)*8),
			checks: []check{{over: boxHTTP, under: boxEnvd, atLeast: 2}},
		},
		{
			name: "cli", title: "sh -lc true by the command line, as a whole process", unit: "ms",
			rounds: o.roundsOr(30), reps: o.pick(3, 2),
			places: s.pick(cliDocker, cliGateway, cliWarm, cliHost, cliHelp), value: latency(noop),
			checks: []check{
				{over: cliGateway, under: cliDocker, atMost: 0.35},
				{over: cliWarm, under: cliDocker, atMost: 0.8},
				{over: cliHost, under: cliDocker, atMost: 0.5},
				{over: cliHelp, atMost: maxHelp},
			},
		},
		{
			name: "followers", title: "1 GiB of output, whose log is followed", unit: "MB/s",
			rounds: o.roundsOr(25), reps: 1,
			places: s.pick(followed(0), followed(followers)), value: bandwidth(volume, produce),
			checks: []check{{over: followed(followers), under: followed(0), atLeast: 0.9}},
		},
		{
			name: "port", title: "1 GiB from what listens on a port", unit: "MB/s",
			rounds: o.roundsOr(9), reps: 1,
			places: s.pick(portLoopback, portDial, portForward),
			value:  bandwidth(volume, func(n int64) job { return job{output: n} }),
			checks: []check{
				{over: portDial, under: portLoopback, atLeast: 0.7},
				{over: portForward, under: portLoopback, atLeast: 0.7},
			},
		},
		{
			name: "enforce", title: "true, without a shell, to which the kernel keeps it", unit: "ms",
			rounds: o.roundsOr(40), reps: o.pick(24, 3),
			places: s.pick(hostWarden, hostFiles, hostEnforced), value: latency(job{args: []string{"/usr/bin/true"}}),
			checks: []check{
				{over: hostEnforced, under: hostWarden, added: true, atMost: maxEnforced},
				{over: hostFiles, under: hostWarden, added: true, atMost: maxEnforced},
			},
		},
		{
			name: "node", title: "sh -lc true on a node", unit: "ms",
			rounds: o.roundsOr(40), reps: o.pick(24, 3),
			places: s.pick(hostWarden, nodeTLS), value: latency(noop),
			checks: []check{{over: nodeTLS, under: hostWarden, added: true, atMost: maxAdded}},
		},
		{
			name: "node-args", title: "true on a node, without a shell", unit: "ms",
			rounds: o.roundsOr(40), reps: o.pick(24, 3),
			places: s.pick(hostWarden, nodeTLS), value: latency(job{args: []string{"true"}}),
			checks: []check{{over: nodeTLS, under: hostWarden, added: true, atMost: maxAdded}},
		},
		{
			name: "node-output", title: "1 GiB of output, read to its end, and its SHA-256", unit: "MB/s",
			rounds: o.roundsOr(7), reps: 1,
			places: s.pick(sshName, nodeTLS, hostWarden), value: bandwidth(volume, s.printed),
			checks: []check{
				{over: nodeTLS, under: sshName, atLeast: 0.5},
				{over: nodeTLS, under: hostWarden},
			},
		},
		{
			name: "node-stuck", title: "256 MiB of output of a node, read to its end", unit: "ms",
			rounds: o.roundsOr(9), reps: 1,
			places: s.pick(beside(0), beside(stuckReaders)),
			value: func(ctx context.Context, p place) (float64, error) {
				return latency(s.printed(volume/4))(ctx, p)
			},
			checks: []check{{over: beside(stuckReaders), under: beside(0), atMost: 1.1}},
		},
		{
			name: "cold", title: "from no container to the end of sh -lc true", unit: "ms",
			rounds: o.roundsOr(10), reps: 1,
			places: s.pick(coldEngine, coldTask, coldSandbox, warmSandbox), value: latency(noop),
			checks: []check{
				{over: coldSandbox, under: coldEngine},
				{over: warmSandbox, under: coldEngine, atMost: 0.1},
				{over: warmSandbox, under: coldTask, atMost: 0.1},
				{over: warmSandbox, atMost: maxWarm},
			},
		},
		{
			name: "pool", title: "from a full pool to the end of the last of " + strconv.Itoa(o.pick(poolSize, 5)) + " first commands at a time", unit: "ms",
			rounds: min(o.roundsOr(1), 1), reps: 1, // to fill the pool takes a minute
			places: s.pick(warmSandbox), value: s.burst(o.pick(poolSize, 5)),
			checks: []check{{over: warmSandbox, atMost: maxBurst}},
		},
	}
}

// pick returns places by name.
func (s *site) pick(names ...string) []place {
	places := make([]place, len(names))
	for i, name := range names {
		places[i] = s.places[name]
	}
	return places
}
