package boundary

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// systemTrees are directories of the system: nothing in them is mounted. Some
// hold what a machine is run with, some the sockets of its services.
var systemTrees = []string{
	"/etc", "/proc", "/sys", "/dev", "/boot", "/root", "/run", "/var/run", "/lost+found",
	"/private/etc", "/private/var/run", "/private/var/db", "/Library/Keychains", "/System",
	"/var/lib/docker", "/var/lib/containerd", "/var/lib/containers", "/var/lib/kubelet", "/var/lib/rancher", "/var/lib/cni",
	"/var/spool/cron", "/var/backups", "/var/lib/sudo", "/var/log/journal",
}

// workspaceTrees are those in which there is no workspace.
var workspaceTrees = slices.DeleteFunc(slices.Clone(systemTrees), func(tree string) bool { return tree == "/root" })

// covering are directories that hold such ones and can be mounted all the same:
// what is in them on a machine's own file system is theirs alone to protect.
// OpenClaw has it so with /var.
var covering = []string{"/var", "/private/var"}

// credentials are what people log in elsewhere with, in their home directories.
var credentials = []string{
	".aws", ".azure", ".bash_history", ".boto", ".cargo", ".claude", ".claude.json", ".codex", ".config", ".databrickscfg", ".docker", ".gem/credentials",
	".git-credentials", ".gnupg", ".gradle/gradle.properties", ".ssh", ".kube", ".local/share/keyrings", ".local/state/corral", ".m2/settings.xml",
	".mozilla", ".my.cnf", ".netrc", "_netrc", ".npm", ".npmrc", ".oci", ".openclaw", ".password-store", ".pgpass", ".pypirc", ".qwen",
	".s3cfg", ".terraform.d", ".vault-token", ".yarnrc.yml", ".zsh_history", "Library/Keychains",
	".colima", ".lima", ".orbstack", ".rd", ".local/share/containers/podman", ".local/share/docker", // engines of one user, with their sockets
}

// engineSockets are the names that sockets of engines have, wherever they are.
var engineSockets = []string{
	"docker.sock", "docker.raw.sock", "docker-cli.sock", "dockershim.sock", "cri-dockerd.sock", "containerd.sock", "containerd.sock.ttrpc",
	"podman.sock", "podman-api.sock", "crio.sock", "buildkitd.sock", "nerdctl.sock", "kubelet.sock", "libvirt-sock", "lxd.socket", "incus.socket", "unix.socket",
}

// Sources are what sources of binds are judged by. The zero value knows the
// directories of the system alone.
type Sources struct {
	// Homes are home directories, in which credentials are looked for.
	// Directories of /home and /Users count without being listed.
	Homes []string
	// Private are directories and files that only Corral may see.
	Private []string
	// Sockets are those of engines, beside the ones of known names.
	Sockets []string
	// Roots, if there are any, are where binds have to be.
	Roots []string
	// Workdir is where the workspace is in the sandbox, if it is not /workspace.
	Workdir string
}

// Check judges a bind. A source that does not exist is judged by where it
// would be.
func (s *Sources) Check(b Bind) *Refusal {
	if r := b.checkTarget(s.Workdir); r != nil || b.Own {
		return r
	}
	r := s.source(b.Source, b.written, systemTrees)
	if r == nil {
		r = likeHome(b.Source)
	}
	if r == nil {
		r = s.outside(b.Source)
	}
	if r != nil {
		r.Subject = b.Text
	}
	return r
}

// CheckAll judges binds one by one and together.
func (s *Sources) CheckAll(binds []Bind) []Refusal {
	var list []Refusal
	targets := map[string]Bind{}
	for _, b := range binds {
		if r := s.Check(b); r != nil {
			list = append(list, *r)
		}
		if first, twice := targets[b.Target]; twice {
			list = append(list, Refusal{Rule: BindTwice, Subject: b.Text, Path: b.Target, Why: quote(first.Text) + " has the same target", Fix: "choose another target, or leave one of the two out"})
		}
		targets[b.Target] = b
	}
	return list
}

// CheckWorkspace judges the directory that an agent is to work on: as a bind,
// but it may be anywhere, also in the home directory of root.
func (s *Sources) CheckWorkspace(dir string) *Refusal {
	return s.source(dir, dir, workspaceTrees)
}

// CheckElsewhere judges what a source is called on a machine whose files this
// program does not see. It is beside Check, of what this program sees of the same
// files. A workspace may be in the home directory of root.
func CheckElsewhere(source string, workspace bool) *Refusal {
	trees := systemTrees
	if workspace {
		trees = workspaceTrees
	}
	r := new(Sources).judge(filepath.Clean(source), trees)
	if r != nil {
		r.Subject, r.Path = source, source
	}
	return r
}

// source judges a source in each way it can be taken: a .. after a symbolic
// link is the parent of where that leads, or what is written before the link.
func (s *Sources) source(source, written string, trees []string) *Refusal {
	named := func(r *Refusal, p string) *Refusal {
		if r != nil {
			if r.Subject, r.Path = source, p; p != filepath.Clean(source) && p != filepath.Clean(written) {
				r.Why = "symbolic links make it " + p + ": " + r.Why
			}
		}
		return r
	}
	for _, p := range []string{source, written} {
		if p == "" {
			continue
		}
		if r := s.judge(filepath.Clean(p), trees); r != nil {
			return named(r, filepath.Clean(p))
		}
		real, err := resolve(p)
		if err != nil {
			return unknown(p, err)
		}
		if r := s.judge(real, trees); r != nil {
			return named(r, real)
		}
		if r := s.identity(real, trees); r != nil {
			return named(r, real)
		}
	}
	return nil
}

func unknown(p string, err error) *Refusal {
	return &Refusal{Rule: BindUnknown, Subject: p, Path: p, Why: "it cannot be looked at: " + err.Error(), Fix: "use a directory that this program can look at"}
}

const (
	useProject = "use a directory made for the work, such as a checkout"
	useOutside = "give the sandbox files, and let a program outside of it do what the socket is for"
)

// judge judges a path by its name.
func (s *Sources) judge(p string, trees []string) *Refusal {
	refuse := func(rule Rule, blocked, why string) *Refusal {
		fix := useProject
		if rule == BindEngine {
			fix = useOutside
		}
		return &Refusal{Rule: rule, Blocked: blocked, Why: why, Fix: fix}
	}
	if p == "/" {
		return refuse(BindRoot, "/", "it is the whole machine, which covers every path that is blocked")
	}
	if name := fold(filepath.Base(p)); isEngineSocket(name) {
		return refuse(BindEngine, p, name+" is the socket of an engine, which is as good as root on the machine")
	}
	for _, secret := range s.secrets(p) {
		if under(p, secret) {
			return refuse(BindCredential, secret, "it targets the blocked path "+secret+", where credentials are kept")
		}
	}
	for _, home := range s.homes() {
		if oneOf(p, []string{home}) { // also that of root, which is the system's, too
			return refuse(BindHome, home, "it is the home directory "+home+", which holds credentials")
		}
	}
	for _, tree := range trees {
		if under(p, tree) {
			return refuse(BindSystem, tree, "it targets the blocked path "+tree)
		}
	}
	for _, tree := range trees {
		if under(tree, p) && !oneOf(p, covering) {
			return refuse(BindCovers, tree, "it covers the blocked path "+tree)
		}
	}
	for _, home := range s.homes() {
		if under(home, p) {
			return refuse(BindHome, home, "it covers the home directory "+home+", which holds credentials")
		}
	}
	for _, tree := range s.private() {
		if under(p, tree) || under(tree, p) {
			return refuse(BindState, tree, "Corral keeps in "+tree+" what decides over it")
		}
	}
	for _, socket := range s.sockets() {
		if under(socket, p) || under(p, socket) {
			return refuse(BindEngine, socket, "it covers "+socket+", the socket of an engine, which is as good as root on the machine")
		}
	}
	return nil
}

// identity judges a path by what is there: a socket or a device by its kind, and
// by its inode a directory that is protected under another name.
func (s *Sources) identity(p string, trees []string) *Refusal {
	info, err := os.Stat(p)
	if err != nil {
		return nil // resolve has seen why; what is not there is nothing
	}
	refuse := func(rule Rule, blocked, why, fix string) *Refusal {
		return &Refusal{Rule: rule, Blocked: blocked, Why: why, Fix: fix}
	}
	switch mode := info.Mode(); {
	case mode.Type() == os.ModeSocket:
		return refuse(BindSocket, p, "it is a socket: who listens there would take what comes from the sandbox for this machine's", useOutside)
	case !mode.IsDir() && !mode.IsRegular():
		return refuse(BindSpecial, p, "it is neither a directory nor a file", useProject)
	}
	// What p is, and each directory that it is in.
	above := []os.FileInfo{info}
	for q := filepath.Dir(p); q != "/"; q = filepath.Dir(q) {
		at, err := os.Stat(q)
		if err != nil {
			break
		}
		above = append(above, at)
	}
	for _, tree := range slices.Concat(trees, s.secrets(p), s.private()) {
		other, err := os.Stat(tree)
		if err == nil && slices.ContainsFunc(above, func(at os.FileInfo) bool { return os.SameFile(at, other) }) {
			return refuse(BindSystem, tree, "it is the blocked path "+tree+" under another name", useProject)
		}
	}
	for _, home := range s.homes() {
		if other, err := os.Stat(home); err == nil && os.SameFile(info, other) {
			return refuse(BindHome, home, "it is the home directory "+home+" under another name", useProject)
		}
	}
	if m := systemMountBelow(p); m != "" {
		return refuse(BindCovers, m, "a file system of the kernel is mounted in it, at "+m, "unmount it, or use a directory without one")
	}
	return nil
}

// signs are what only home directories have.
var signs = []string{".ssh", ".gnupg", ".aws", ".netrc", ".git-credentials"}

// likeHome refuses a directory that looks like a home: one of an account that
// is listed elsewhere than on this machine, or of another machine.
func likeHome(source string) *Refusal {
	for _, name := range signs {
		if p := filepath.Join(source, name); exists(p) {
			return &Refusal{Rule: BindHome, Path: source, Blocked: p, Why: "it holds " + p + ", as a home directory does", Fix: useProject}
		}
	}
	return nil
}

func exists(p string) bool {
	_, err := os.Lstat(p)
	return err == nil
}

// outside refuses what is in none of the roots.
func (s *Sources) outside(source string) *Refusal {
	if len(s.Roots) == 0 {
		return nil
	}
	real, err := resolve(filepath.Clean(source))
	if err != nil {
		return unknown(source, err)
	}
	for _, root := range s.Roots {
		if r, err := resolve(filepath.Clean(root)); err == nil && (real == r || strings.HasPrefix(real, strings.TrimSuffix(r, "/")+"/")) {
			return nil
		}
	}
	return &Refusal{Rule: BindOutside, Path: real, Why: "its source is outside allowed roots (" + strings.Join(s.Roots, ", ") + ")", Fix: "use a directory in one of them, or add its root to sandbox.bindRoots"}
}

// homes are the home directories, also as symbolic links lead to them. / is none.
func (s *Sources) homes() []string { return realToo(s.Homes) }

func (s *Sources) private() []string { return realToo(s.Private) }

// sockets are where they really are: a directory that a link to one is in does
// not hold it.
func (s *Sources) sockets() []string {
	var list []string
	for _, p := range s.Sockets {
		if real, err := resolve(filepath.Clean(p)); err == nil && filepath.IsAbs(p) {
			list = append(list, real)
		}
	}
	return list
}

// realToo are clean absolute paths, and what symbolic links make of them.
func realToo(paths []string) []string {
	var list []string
	for _, p := range paths {
		if p = filepath.Clean(p); !filepath.IsAbs(p) || p == "/" {
			continue
		}
		list = append(list, p)
		if real, err := resolve(p); err == nil && real != p && real != "/" {
			list = append(list, real)
		}
	}
	return list
}

// secrets are the paths of credentials that p could be, or be in.
func (s *Sources) secrets(p string) []string {
	homes := s.homes()
	for _, parent := range []string{"/home", "/Users", "/var/home"} {
		rest, ok := strings.CutPrefix(fold(p), fold(parent)+"/")
		if name, _, deeper := strings.Cut(rest, "/"); ok && deeper {
			homes = append(homes, parent+"/"+name)
		}
	}
	var list []string
	for _, home := range homes {
		for _, name := range credentials {
			list = append(list, filepath.Join(home, name))
		}
	}
	return list
}

// oneOf reports whether a path is in a list.
func oneOf(p string, list []string) bool {
	return slices.ContainsFunc(list, func(one string) bool { return fold(p) == fold(one) })
}

func isEngineSocket(name string) bool { return oneOf(name, engineSockets) }
