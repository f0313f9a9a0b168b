package e2b

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"slices"
	"strconv"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/gateway/access"
	"github.com/corral-exec/corral/sandbox/files"
)

// A buildSpec is what a client wants built.
type buildSpec struct {
	FromImage    string          `json:"fromImage"`
	FromTemplate string          `json:"fromTemplate"`
	Registry     json.RawMessage `json:"fromImageRegistry"`
	Force        bool            `json:"force"`
	Steps        []buildStep     `json:"steps"`
	Start        string          `json:"startCmd"`
	Ready        string          `json:"readyCmd"`
}

// A buildStep is one step. Its JSON is part of what names a layer.
type buildStep struct {
	Type  string   `json:"type"`
	Args  []string `json:"args"`
	Files string   `json:"filesHash"`
	Force bool     `json:"force"`
}

// Names of steps in logs, beside numbers.
const (
	stepBase     = "base"
	stepFinalize = "finalize"
)

// maxLayers bounds the layers of an agent.
const maxLayers = 20

// arg is an argument of a step; empty: it has not so many.
func (st buildStep) arg(i int) string {
	if i < len(st.Args) {
		return st.Args[i]
	}
	return ""
}

// check says what is wrong with a step, as far as that can be told before it is done.
func (s *Server) checkStep(st buildStep) error {
	user := ""
	switch want, has := 1, len(st.Args); st.Type {
	case "RUN":
		user = st.arg(1)
	case "COPY":
		want, user = 2, st.arg(2)
		if !filesHash().MatchString(st.Files) {
			return corral.Errorf(corral.ErrInvalid, "", "COPY has no SHA-256 of its files")
		}
		if _, err := newPlacement(st.arg(0), st.arg(1), st.arg(3), Home); err != nil {
			return err
		}
		fallthrough
	case "WORKDIR", "ENV", "USER":
		if has < want || st.Type == "ENV" && has%2 != 0 {
			return corral.Errorf(corral.ErrInvalid, "", "%s has %d arguments", st.Type, has)
		}
		if st.Type == "USER" {
			user = st.arg(0)
		}
	default:
		return corral.Errorf(errors.ErrUnsupported, "use RUN, COPY, ENV, WORKDIR and USER", "there is no step %.20q", st.Type)
	}
	return checkName(user)
}

// checkBuild says what is wrong with a build before it begins, and what it begins with.
func (s *Server) checkBuild(b *build, spec buildSpec) (from source, err error) {
	if len(spec.Registry) > 0 && string(spec.Registry) != "null" {
		return from, corral.Errorf(errors.ErrUnsupported, "log the gateway's user in (docker login), and leave them out", "this gateway takes no credentials for a registry")
	}
	if len(spec.Steps) > maxSteps {
		return from, corral.Errorf(corral.ErrInvalid, "", "there are %d steps; more than %d are too many", len(spec.Steps), maxSteps)
	}
	for i, st := range spec.Steps {
		if err := s.checkStep(st); err != nil {
			return from, fmt.Errorf("step %d: %w", i+1, err)
		}
	}
	mine := s.cfg.Store.snaps.of(func(agent string) bool { return agent == b.agent })
	if len(mine) >= maxSnapshots {
		return from, corral.Errorf(corral.ErrUnavailable, "remove some", "the agent %s has %d templates and snapshots, and no more may be", b.agent, len(mine))
	}
	if spec.FromTemplate != "" {
		return s.source(b.agent, spec.FromTemplate)
	}
	return s.imageSource(cmp.Or(spec.FromImage, baseImage))
}

// layersOf names the state after each step by all steps up to it. A RUN whose layer exists
// is not run again.
func layersOf(from source, steps []buildStep) []string {
	names, name := make([]string, len(steps)), from.of
	for i, st := range steps {
		st.Force = false
		text, err := json.Marshal(st)
		if err != nil {
			panic(err) // strings
		}
		sum := sha256.Sum256(append([]byte(name+" "), text...))
		name = hex.EncodeToString(sum[:])
		names[i] = name
	}
	return names
}

// cached returns how many steps a layer replaces, and that layer as the source.
func (s *Server) cached(b *build, spec buildSpec, from source, names []string) (int, source) {
	steps := len(spec.Steps)
	if spec.Force {
		steps = 0
	} else if i := slices.IndexFunc(spec.Steps, func(st buildStep) bool { return st.Force }); i >= 0 {
		steps = i
	}
	for n := steps; n > 0; n-- {
		layer, ok := s.cfg.Store.layers.find(func(a string) bool { return a == b.agent }, names[n-1])
		if archive, err := os.Open(s.cfg.Store.layers.file(layer.ID, ".tar")); ok && err == nil {
			return n, source{image: from.image, archive: archive, root: layer.Root, preset: layer.Preset}
		}
	}
	return 0, from
}

// buildSteps makes a template: a sandbox in which the steps are done, one after the other,
// and a snapshot of it. On error, step is that which failed.
func (s *Server) buildSteps(ctx context.Context, b *build, spec buildSpec, from source) (step string, err error) {
	defer from.archive.Close()
	names := layersOf(from, spec.Steps)
	done, from := s.cached(b, spec, from, names)
	defer from.archive.Close()
	now := time.Now().UTC()
	box := Box{
		ID: newID(), Agent: b.agent, Key: access.From(ctx).Ref(), Template: b.name, Image: from.image, Preset: from.preset,
		Started: now, End: now.Add(buildLimit), Token: newToken(),
	}
	box, err = s.make(ctx, box, false, func(ctx context.Context, box Box) error { return s.unpack(ctx, box, from) })
	if err != nil {
		return stepBase, err
	}
	defer func() {
		ctx, cancel := cleanly(ctx)
		defer cancel()
		if derr := s.destroy(ctx, box.ID, always); derr != nil && !errors.Is(derr, corral.ErrNotFound) {
			s.log.Warn("the sandbox of a build is there until its time is over", "sandbox", box.ID, "error", derr)
		}
	}()
	ctx = s.within(ctx, box)
	f, err := s.home(ctx, box)
	if err != nil {
		return stepBase, err
	}
	for i, st := range spec.Steps {
		step = strconv.Itoa(i + 1)
		title := fmt.Sprintf("[builder %d/%d] %s %s", i+1, len(spec.Steps), st.Type, st.arg(0))
		if i < done {
			b.log("info", step, "CACHED "+title)
			continue
		}
		b.log("info", step, title)
		if err := s.doStep(ctx, b, &box, f, st, step); err != nil {
			return step, err
		}
		if st.Type == "RUN" {
			if err := s.keepLayer(ctx, box, f, names[i]); err != nil {
				s.log.Warn("a step of a build is not kept for the next one", "template", b.name, "error", err)
			}
		}
	}
	if spec.Start != "" || spec.Ready != "" { // else what the template it is built from has
		box.Preset.Start, box.Preset.Ready, box.Preset.Code = spec.Start, spec.Ready, false
	}
	return stepFinalize, s.keepTemplate(ctx, b, box, f)
}

// doStep does a step in the sandbox of a build, whose preset it changes.
func (s *Server) doStep(ctx context.Context, b *build, box *Box, f files.FS, st buildStep, step string) error {
	c := call{Context: ctx, box: *box, user: box.Preset.User}
	switch st.Type {
	case "RUN":
		c.user = cmp.Or(st.arg(1), c.user)
	case "COPY":
		c.user = cmp.Or(st.arg(2), c.user)
	case "USER":
		c.user = st.arg(0)
	}
	if err := s.checkUser(c); err != nil {
		return err
	}
	dir := cmp.Or(box.Preset.Dir, c.home())
	switch st.Type {
	case "RUN":
		out := lines{b, step, map[corral.Stream][]byte{}}
		exit, err := s.shell(c, st.arg(0), out.add)
		out.end()
		if err != nil {
			return err
		}
		if exit.Signal != 0 {
			return corral.Errorf(corral.ErrInvalid, "", "the command was ended by %s", exit.Signal)
		}
		if exit.Code != 0 {
			return corral.Errorf(corral.ErrInvalid, "", "the command ended with exit code %d", exit.Code)
		}
		return nil
	case "COPY":
		p, err := newPlacement(st.arg(0), st.arg(1), st.arg(3), dir)
		if err != nil {
			return err
		}
		from, err := os.Open(s.cfg.Store.uploads.File(b.agent, st.Files))
		if errors.Is(err, os.ErrNotExist) {
			return corral.Errorf(corral.ErrNotFound, "send them again", "the files of COPY %s are not there", st.arg(0))
		}
		if err != nil {
			return err
		}
		defer from.Close()
		defer context.AfterFunc(ctx, func() { from.Close() })() // what is not copied may have no end
		err = p.place(ctx, f, from)
		return cmp.Or(ctx.Err(), err)
	case "ENV":
		env := maps.Clone(box.Preset.Env)
		if env == nil {
			env = map[string]string{}
		}
		for i := 0; i+1 < len(st.Args); i += 2 {
			env[st.Args[i]] = st.Args[i+1]
		}
		box.Preset.Env = env
		return newSandbox{Env: env}.check()
	case "WORKDIR":
		if dir = path.Join(dir, st.arg(0)); path.IsAbs(st.arg(0)) {
			dir = path.Clean(st.arg(0))
		}
		if i, err := f.Stat(ctx, dir); err != nil || i.Type != files.TypeDir {
			if err := f.Mkdir(ctx, dir, files.MkdirOptions{Parents: true}); err != nil {
				return err
			}
		}
		box.Preset.Dir = dir
	case "USER":
		box.Preset.User = c.user
	}
	return nil
}

// keepLayer keeps the state of the sandbox for later builds. The oldest layers are removed.
func (s *Server) keepLayer(ctx context.Context, box Box, f files.FS, name string) error {
	layers := s.cfg.Store.layers
	mine := layers.of(func(agent string) bool { return agent == box.Agent })
	for i, old := range mine {
		if old.Name == name || i >= maxLayers-1 {
			if err := layers.remove(old.ID); err != nil && !errors.Is(err, os.ErrNotExist) {
				return err
			}
		}
	}
	_, err := layers.take(Snapshot{ID: newSnapshotID(), Name: name, Agent: box.Agent, Image: box.Image, Created: time.Now().UTC(), Preset: box.Preset}, s.packed(ctx, box, f))
	return err
}

// keepTemplate makes the sandbox of a build a template, if what it is to start does so.
func (s *Server) keepTemplate(ctx context.Context, b *build, box Box, f files.FS) error {
	snaps := s.cfg.Store.snaps
	_, err := snaps.take(Snapshot{
		ID: b.id, Built: true, Agent: b.agent, Sandbox: box.ID, Template: b.name, Image: box.Image, Created: time.Now().UTC(), Preset: box.Preset,
	}, s.packed(ctx, box, f))
	if err != nil {
		return err
	}
	if err = s.launch(ctx, box); err == nil {
		err = snaps.tag(b.id, b.name, b.tags)
	}
	if err != nil {
		return errors.Join(err, snaps.remove(b.id))
	}
	return nil
}
