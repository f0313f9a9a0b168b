package sandbox

import (
	"cmp"
	"errors"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/sandbox/boundary"
	"github.com/corral-exec/corral/sandbox/engine"
	"github.com/corral-exec/corral/sandbox/seccomp"
	"github.com/corral-exec/corral/sandbox/secrets"
	"github.com/corral-exec/corral/sandbox/users"
)

// allowed is what a configuration asks for that was judged, and may have.
type allowed struct {
	mounts  []engine.Mount      // the binds, without symbolic links, and the secrets
	profile *specs.LinuxSeccomp // the configured one
	anyUser bool                // User is the default, and another one is as good
	uids    users.Range         // UIDRange
	halve   bool                // CPUs is the default, and not more than half of the machine's
}

// Refusals are what the configuration asks for that a sandbox is not given: all
// of it, where New names the first alone. It is for people who ask beforehand;
// nothing is made.
func (c Config) Refusals() []boundary.Refusal {
	var list []boundary.Refusal
	if c.Workspace.Access == AccessReadOnly || c.Workspace.Access == AccessReadWrite {
		// Errors that are no refusals are New's to tell.
		list = append(list, boundary.Refusals(c.completeWorkspace())...)
	}
	if c.Isolation.User != "" {
		list = append(list, boundary.Refusals(users.Check(c.Isolation.User))...)
	}
	return append(list, boundary.Refusals(c.judge())...)
}

// judge refuses what a sandbox is not given, all of it in one error, and keeps
// what is left.
func (c *Config) judge() error {
	var errs []error
	refuse := func(r *boundary.Refusal) {
		if r != nil {
			errs = append(errs, r)
		}
	}
	var sources boundary.Sources
	if len(c.Mounts.Binds) > 0 || c.Workspace.Dir != "" { // which takes a look at the machine
		sources = boundary.Machine(os.Getenv)
	}
	sources.Roots, sources.Workdir = c.Mounts.BindRoots, c.Workspace.Home
	if c.StateDir != "" {
		sources.Private = append(sources.Private, c.StateDir)
	}
	if c.Workspace.Dir != "" {
		refuse(sources.CheckWorkspace(c.Workspace.Dir))
	}
	var binds []boundary.Bind
	for _, text := range c.Mounts.Binds {
		b, err := boundary.ParseBind(text)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		binds = append(binds, b)
	}
	for _, v := range c.Mounts.Volumes {
		binds = append(binds, boundary.Bind{Text: v.Target, Source: v.Dir, Target: v.Target, Own: true})
	}
	for _, r := range sources.CheckAll(binds) {
		refuse(&r)
	}
	refuse(boundary.Network(c.Isolation.Network))
	refuse(boundary.AppArmor(c.Isolation.AppArmor))
	if r := boundary.Seccomp(c.Isolation.Seccomp); r != nil {
		refuse(r)
	} else if err := c.readProfile(); err != nil {
		errs = append(errs, err)
	}
	if err := secrets.Check(c.Mounts.Secrets); err != nil {
		errs = append(errs, err)
	}
	if err := boundary.Join(errs); err != nil {
		return err
	}
	c.mounts = nil
	for _, b := range binds {
		real, err := boundary.Real(b.Source)
		if err == nil && !b.Own {
			_, err = os.Lstat(real)
		}
		if err != nil {
			return corral.Errorf(corral.ErrDir, "create it first, or leave the bind out", "cannot mount %s into a sandbox: %w", b.Text, err)
		}
		c.mounts = append(c.mounts, engine.Mount{Source: real, Target: b.Target, ReadOnly: b.ReadOnly})
	}
	return nil
}

// readProfile reads the seccomp profile that is configured.
func (c *Config) readProfile() error {
	c.profile = nil
	if c.Isolation.Seccomp == "" || c.Isolation.Seccomp == "default" {
		return nil
	}
	refuse := func(rule boundary.Rule, err error) error {
		return &boundary.Refusal{Rule: rule, Subject: c.Isolation.Seccomp, Why: err.Error(), Fix: cmp.Or(corral.Hint(err), "name a file that this program can read")}
	}
	var err error
	c.profile, err = seccomp.Read(c.Isolation.Seccomp)
	switch {
	case errors.Is(err, corral.ErrDenied):
		return refuse(boundary.SeccompUnconfined, err)
	case err != nil:
		return refuse(boundary.SeccompProfile, err)
	}
	return nil
}

// completeLimits fills in the defaults.
func (c *Config) completeLimits() {
	limit := func(v *int64, def int64) {
		switch {
		case *v == 0:
			*v = def
		case *v < 0:
			*v = 0
		}
	}
	limit(&c.Resources.Memory, 2<<30)
	limit(&c.Resources.Pids, 512)
	limit(&c.Resources.Tmp, 512<<20)
	limit(&c.Resources.Shm, 64<<20)
	limit(&c.Resources.FileSize, 16<<30)
	limit(&c.Resources.OpenFiles, 64<<10)
	limit(&c.Resources.OutputRate, 0)
	switch {
	case c.Resources.CPUs == 0:
		c.Resources.CPUs, c.halve = defaultCPUs, true
	case c.Resources.CPUs < 0:
		c.Resources.CPUs = 0
	}
}

// defaultCPUs is how many processors a sandbox may use, unless the machine has
// less than twice as many: one that is busy must not stop the rest.
const defaultCPUs = 2

// pageOf is how many bytes of a tmpfs there are for each of its files at least:
// many small files take memory that their size does not tell.
const pageOf = 4 << 10

// gvisorTasks is how many tasks of this machine there may be for each process that
// a sandbox of gVisor's may have. gVisor does not limit processes itself: the limit
// is one of what runs them on this machine, which are up to thirty tasks for each
// when many run at once (2363 for 40 shells that sleep, and 5499 for 100), and
// gVisor ends, with all that is in it, if it wants one more.
const gvisorTasks = 16

// mostPids is how many processes Linux can count.
const mostPids = 1 << 22

// restrict says of a container what it may use and do: all that the
// configuration says and no engine has to be asked for.
func (c *Config) restrict(s *engine.Spec) {
	s.Memory, s.Swap, s.CPUs, s.Pids = c.Resources.Memory, c.Resources.Swap, c.Resources.CPUs, c.Resources.Pids
	if c.gvisor() {
		s.Pids = min(s.Pids*gvisorTasks, mostPids)
	}
	s.NoFiles = c.Resources.OpenFiles
	s.Rlimits = []specs.POSIXRlimit{{Type: "RLIMIT_CORE"}}
	if c.Resources.FileSize > 0 {
		s.Rlimits = append(s.Rlimits, specs.POSIXRlimit{Type: "RLIMIT_FSIZE", Soft: uint64(c.Resources.FileSize), Hard: uint64(c.Resources.FileSize)})
	}
	s.Shm = cmp.Or(c.Resources.Shm, 1<<53) // none would be the engine's default
	s.Tmpfs = []engine.Tmpfs{
		{Target: "/tmp", Size: c.Resources.Tmp, Inodes: c.Resources.Tmp / pageOf, Mode: 0o1777, Exec: true},
		{Target: "/var/tmp", Size: 64 << 20, Inodes: 64 << 20 / pageOf, Mode: 0o1777},
		{Target: "/run", Size: 16 << 20, Inodes: 16 << 20 / pageOf, Mode: 0o1777},
	}
	if c.Resources.Tmp == 0 {
		s.Tmpfs[0].Inodes = 0
	}
	if c.inMemory() {
		s.Tmpfs = append(s.Tmpfs, engine.Tmpfs{Target: c.workdir(), Size: c.Workspace.Size, Inodes: c.Workspace.Size / pageOf, Mode: 0o1777, Exec: true})
	}
	if c.Isolation.Network != boundary.NetworkNone {
		s.Network = c.Isolation.Network
	}
	s.AppArmor = c.Isolation.AppArmor
	if !c.isolatedKernel() {
		s.Profile = seccomp.Digest(c.profile)
	}
	s.Mounts = append(s.Mounts, c.mounts...)
}

// adapt completes what restrict said by what the engine is, or says why a
// container cannot be had from it.
func (c *Config) adapt(s *engine.Spec, info engine.Info) error {
	if err := c.checkSize(info); err != nil {
		return err
	}
	if err := c.checkRoot(s.Mounts, info); err != nil {
		return err
	}
	if c.halve && info.CPUs > 0 {
		s.CPUs = min(s.CPUs, float64(info.CPUs)/2)
	}
	if _, err := info.Translate(s.Mounts); err != nil { // before anything is made
		return err
	}
	if c.Isolation.AppArmor != "" && !slices.ContainsFunc(info.Security, func(s string) bool { return strings.HasPrefix(s, "name=apparmor") }) {
		return corral.Errorf(corral.ErrUnavailable, "leave sandbox.apparmor out, or use an engine with AppArmor", "the engine at %s has no AppArmor for the profile %s", info.Address, c.Isolation.AppArmor)
	}
	if s.NoFiles > 0 && len(s.Args) > 0 && s.Args[0] == wardenPath {
		s.Args = append(slices.Clip(s.Args), "-files", strconv.FormatInt(s.NoFiles, 10))
	}
	if c.isolatedKernel() {
		for i := range s.Tmpfs { // which knows no such limit
			s.Tmpfs[i].Inodes = 0
		}
		return nil
	}
	if s.Seccomp = c.profile; s.Seccomp == nil {
		s.Seccomp = seccomp.Profile(info.Arch)
	}
	return nil
}
