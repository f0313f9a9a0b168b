//go:build linux

// Command bench measures what Corral costs: every executor of this machine side
// by side with what it is compared to, in the same run, round by round, so that
// whatever else the machine does hits both alike. docs/reference/bench.md says what is
// measured, and how.
//
// It needs root (for a chroot into a container's file system) and a Docker
// engine on this machine. Everything it makes it removes, also on Ctrl-C.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"runtime/pprof"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/images"
)

type options struct {
	quick  bool
	only   []string
	places *regexp.Regexp // nil: all
	rounds int
	json   string // file
	image  string
	state  string // directory
	warden string // program; empty: it is looked for
	corral string // program
	envd   string // E2B's daemon; empty: nothing is compared with it
	// containerd's socket, for the comparison with it; empty: the usual one
	containerd string
}

func main() {
	if is, err := asChild(os.Args[1:]); is {
		if err != nil {
			fmt.Fprintln(os.Stderr, "bench:", err)
			os.Exit(1)
		}
		return
	}
	var o options
	flag.BoolVar(&o.quick, "quick", false, "measure next to nothing, to see that it works")
	only := flag.String("only", "", "measure only these, separated by commas: "+strings.Join(names(), ", "))
	places := flag.String("places", "", "measure only in places whose names match this `regexp`")
	profile := flag.String("cpuprofile", "", "write a profile of this program to this `file`")
	flag.IntVar(&o.rounds, "rounds", 0, "`number` of rounds of every measurement (default: a number that suits it)")
	flag.StringVar(&o.json, "json", "", "write the results to this `file` too, as JSON")
	flag.StringVar(&o.image, "image", images.Default, "`image` of the sandboxes")
	flag.StringVar(&o.state, "state", os.TempDir(), "`directory` whose file system output is logged on")
	flag.StringVar(&o.containerd, "containerd", "", "`socket` of containerd (default $CONTAINERD_ADDRESS, or the usual one)")
	flag.StringVar(&o.corral, "corral", "bin/corral", "`program` of the gateway, which make build makes")
	flag.StringVar(&o.envd, "envd", os.Getenv("CORRAL_ENVD"), "`program` of E2B's daemon, to be compared with (default $CORRAL_ENVD)")
	flag.Parse()
	if *only != "" {
		o.only = strings.Split(*only, ",")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var err error
	if o.places, err = regexp.Compile(*places); err == nil {
		err = profiled(*profile, func() error { return run(ctx, o, os.Stdout) })
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		if hint := corral.Hint(err); hint != "" {
			fmt.Fprintln(os.Stderr, "hint:", hint)
		}
		stop()
		os.Exit(1)
	}
}

// profiled is f, with a profile if a file is named.
func profiled(file string, f func() error) (err error) {
	if file == "" {
		return f()
	}
	w, err := os.Create(file)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	if err := pprof.StartCPUProfile(w); err != nil {
		return err
	}
	defer pprof.StopCPUProfile()
	return f()
}

func run(ctx context.Context, o options, out io.Writer) (err error) {
	for _, name := range o.only {
		if !slices.Contains(names(), name) {
			return corral.Errorf(corral.ErrInvalid, "use "+strings.Join(names(), ", "), "there is no measurement %q", name)
		}
	}
	s, err := newSite(ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	r := report{Began: time.Now(), Quick: o.quick}
	if r.Machine, err = describe(ctx, s.engine, o.image); err != nil {
		return err
	}
	err = s.measure(ctx, o, &r) // what was measured before it failed is printed all the same
	if o.json != "" {
		err = errors.Join(err, r.write(o.json))
	}
	return errors.Join(err, r.table(out))
}

// measure fills the report.
func (s *site) measure(ctx context.Context, o options, r *report) error {
	wanted := func(name string) bool { return len(o.only) == 0 || slices.Contains(o.only, name) }
	for _, x := range s.experiments(o) {
		if !wanted(x.name) {
			continue
		}
		if slices.ContainsFunc(x.places, func(p place) bool { return p.run == nil }) {
			continue // what it compares with is not here
		}
		x.places = slices.DeleteFunc(slices.Clone(x.places), func(p place) bool { return o.places != nil && !o.places.MatchString(p.name) })
		fmt.Fprintf(os.Stderr, "bench: %s\n", x.title)
		values, err := x.run(ctx)
		if err != nil {
			return err
		}
		r.add(x, values)
	}
	if wanted(policyName) {
		r.addPolicy(o.pick(20_000, 100))
	}
	if wanted(memoryName) {
		all, err := s.measureMemory(ctx, o.pick(busyJobs, 2))
		if err != nil {
			return err
		}
		r.addMemory(all)
		sessions := o.pick(idleSessions, 10)
		mb, err := s.gateway.idle(ctx, sessions)
		if err != nil {
			return err
		}
		r.addIdle(sessions, mb)
	}
	if wanted(nodesName) {
		nodes, rest := o.pick(idleNodes, 20), nodesRest
		if o.quick {
			rest = 0
		}
		resident, inGo, err := s.measureNodes(nodes, rest)
		if err != nil {
			return err
		}
		r.addNodes(nodes, resident, inGo)
	}
	return nil
}

func (r *report) write(file string) error {
	b, err := json.MarshalIndent(r, "", "\t")
	if err != nil {
		return err
	}
	if err := os.WriteFile(file, append(b, '\n'), 0o644); err != nil {
		return fmt.Errorf("cannot write the results: %w", err)
	}
	return nil
}
