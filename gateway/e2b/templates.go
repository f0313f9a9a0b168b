package e2b

import (
	"cmp"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/gateway/access"
)

// DefaultTag is that of a template for which a client names no tag.
const DefaultTag = "default"

// maxTags bounds the tags of a template.
const maxTags = 50

// A source is what a sandbox begins with. The caller closes its archive.
type source struct {
	image   string   // empty: the agent's
	archive *os.File // of a Snapshot, which may be removed meanwhile; nil: there is none
	root    int64    // as Snapshot.Root
	preset  Preset
	of      string // the ID of the snapshot, or the image
}

// source is what sandboxes of a template begin with: one that is configured, or that was
// built, or a snapshot.
func (s *Server) source(agent, template string) (source, error) {
	template = strings.TrimPrefix(template, agent+"/") // the agent is the team of its clients
	if from, ok := s.configured(strings.TrimSuffix(template, ":"+DefaultTag)); ok {
		return from, nil
	}
	snap, ok := s.cfg.Store.snaps.find(func(a string) bool { return a == agent }, template)
	if !ok {
		return source{}, corral.Errorf(corral.ErrNotFound, "build it, or add it to gateway.e2b.templates", "template '%.80s' not found", template)
	}
	archive, err := os.Open(s.cfg.Store.snaps.file(snap.ID, ".tar"))
	return source{image: snap.Image, archive: archive, root: snap.Root, preset: snap.Preset, of: snap.ID}, err
}

// baseImage is what clients call the image of the template base.
const baseImage = "e2bdev/base"

// imageSource is what a build from an image begins with. It has to be one that is
// configured, by its own name or that of a template: an image is from somewhere.
func (s *Server) imageSource(image string) (source, error) {
	if strings.TrimSuffix(image, ":latest") == baseImage {
		image = DefaultTemplate
	}
	if found, ok := Image(s.cfg.Settings(), image); ok {
		return source{image: found, of: found}, nil
	}
	for _, t := range s.cfg.Settings().Templates.Value {
		if _, configured, _ := strings.Cut(t, "="); configured == image {
			return source{image: image, of: image}, nil
		}
	}
	return source{}, corral.Errorf(corral.ErrDenied, "add NAME="+image+" to gateway.e2b.templates", "templates are not built from the image %.200q", image)
}

// templateName reads NAME or NAME:TAG.
func templateName(text string) (name, tag string, err error) {
	name, tag, _ = strings.Cut(text, ":")
	if !snapshotName().MatchString(name) {
		return "", "", corral.Errorf(corral.ErrInvalid, "use letters, digits, '_', '.' and '-'", "%.80q cannot name a template", text)
	}
	return name, tag, nil
}

// checkTags returns the tags, each once; DefaultTag if there are none.
func checkTags(tags []string) ([]string, error) {
	var list []string
	for _, tag := range tags {
		if !snapshotName().MatchString(tag) {
			return nil, corral.Errorf(corral.ErrInvalid, "use letters, digits, '_', '.' and '-'", "%.80q cannot be a tag", tag)
		}
		if !slices.Contains(list, tag) {
			list = append(list, tag)
		}
	}
	if len(list) > maxTags {
		return nil, corral.Errorf(corral.ErrInvalid, "", "there are %d tags; more than %d are too many", len(list), maxTags)
	}
	if len(list) == 0 {
		list = []string{DefaultTag}
	}
	return list, nil
}

// tag gives a built template a name and tags, which it takes from others of that name.
func (s *snapshots) tag(id, name string, tags []string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	snap, ok := s.all[id]
	if !ok {
		return corral.Errorf(corral.ErrNotFound, "", "there is no template %s any more", id)
	}
	snap.Name = name
	snap.Tags = append(slices.DeleteFunc(slices.Clone(snap.Tags), func(t string) bool { return slices.Contains(tags, t) }), tags...)
	if len(snap.Tags) > maxTags {
		return corral.Errorf(corral.ErrInvalid, "remove some", "the template %s has %d tags, and no more may be", name, maxTags)
	}
	if err := s.write(snap); err != nil {
		return err
	}
	return s.untagLocked(snap.Agent, name, id, tags)
}

// untag takes tags from the templates of a name. Those that have none any more are removed.
func (s *snapshots) untag(agent, name string, tags []string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.untagLocked(agent, name, "", tags)
}

// untagLocked leaves the template with the ID but as it is. mu is held.
func (s *snapshots) untagLocked(agent, name, but string, tags []string) error {
	for id, other := range s.all {
		if id == but || !other.Built || other.Name != name || other.Agent != agent {
			continue
		}
		left := slices.DeleteFunc(slices.Clone(other.Tags), func(t string) bool { return slices.Contains(tags, t) })
		if len(left) == len(other.Tags) {
			continue
		}
		other.Tags = left
		var err error
		if len(left) == 0 {
			err = s.drop(id)
		} else {
			err = s.write(other)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// meant is the snapshot or template that a caller means by a text: of several agents that
// have one of the name, it is that of the caller's own, or else the newest.
func (s *Server) meant(r *http.Request, text string) (Snapshot, bool) {
	g := access.From(r.Context())
	if own, err := s.agentFor(g); err == nil {
		if snap, ok := s.cfg.Store.snaps.find(func(a string) bool { return a == own }, text); ok {
			return snap, true
		}
	}
	return s.cfg.Store.snaps.find(g.Sees, text)
}

// built are the built templates of a name, of the agent that is meant by it, or all; the
// newest first.
func (s *Server) built(r *http.Request, name string) []Snapshot {
	list := slices.DeleteFunc(s.cfg.Store.snaps.of(access.From(r.Context()).Sees), func(x Snapshot) bool {
		return !x.Built || x.Name == "" || name != "" && x.Name != name
	})
	if name == "" || len(list) == 0 {
		return list
	}
	of := list[0].Agent
	if own, err := s.agentFor(access.From(r.Context())); err == nil && slices.ContainsFunc(list, func(x Snapshot) bool { return x.Agent == own }) {
		of = own
	}
	return slices.DeleteFunc(list, func(x Snapshot) bool { return x.Agent != of })
}

// template is one in a list.
type template struct {
	ID      string     `json:"templateID"`
	Build   string     `json:"buildID"`
	Public  bool       `json:"public"`
	Aliases []string   `json:"aliases"`
	Names   []string   `json:"names"`
	CPUs    int        `json:"cpuCount"`
	Memory  int64      `json:"memoryMB"`
	Disk    int64      `json:"diskSizeMB"`
	Envd    string     `json:"envdVersion"`
	Status  string     `json:"buildStatus"`
	Created *time.Time `json:"createdAt,omitempty"`
	Updated *time.Time `json:"updatedAt,omitempty"`
}

func newTemplate(name, build string) template {
	return template{ID: name, Build: build, Aliases: []string{name}, Names: []string{name}, Envd: EnvdVersion, Status: "ready"}
}

func (s *Server) listTemplates(w http.ResponseWriter, r *http.Request) error {
	names := append([]string{DefaultTemplate}, codeTemplates...)
	for _, t := range s.cfg.Settings().Templates.Value {
		if name, _, _ := strings.Cut(t, "="); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	rows := []template{}
	for _, name := range names {
		rows = append(rows, newTemplate(name, name))
	}
	for _, b := range s.built(r, "") { // the newest first
		if !slices.ContainsFunc(rows, func(t template) bool { return t.ID == b.Name }) {
			row := newTemplate(b.Name, b.ID)
			row.Created, row.Updated = &b.Created, &b.Created
			rows = append(rows, row)
		}
	}
	return writeJSON(w, http.StatusOK, rows)
}

// ofTemplate answers GET /templates/ID/tags and /templates/aliases/NAME, which no pattern
// of http.ServeMux tells apart.
func (s *Server) ofTemplate(w http.ResponseWriter, r *http.Request) error {
	switch id, what := r.PathValue("id"), r.PathValue("what"); {
	case id == "aliases":
		return s.getAlias(w, r, what)
	case what == "tags":
		return s.listTags(w, r, id)
	}
	return missing(w, r)
}

func (s *Server) getAlias(w http.ResponseWriter, r *http.Request, alias string) error {
	name, _, _ := strings.Cut(alias, ":")
	if _, ok := s.configured(name); !ok && len(s.built(r, name)) == 0 || name == "" {
		return corral.Errorf(corral.ErrNotFound, "", "Template alias %.80q not found", name)
	}
	return writeJSON(w, http.StatusOK, map[string]any{"templateID": name, "public": false})
}

// removeTemplate removes a template with all of its tags, or one of its builds, or a
// snapshot. Templates that are configured stay.
func (s *Server) removeTemplate(w http.ResponseWriter, r *http.Request) error {
	id := r.PathValue("id")
	list := s.built(r, id)
	if snap, ok := s.meant(r, id); ok && len(list) == 0 {
		list = []Snapshot{snap}
	}
	if len(list) == 0 {
		return corral.Errorf(corral.ErrNotFound, "", "there is no template or snapshot %.80q that could be removed", id)
	}
	for _, snap := range list {
		if err := s.cfg.Store.snaps.remove(snap.ID); err != nil {
			return err
		}
	}
	return noContent(w, nil)
}

// tagged is a tag of a template.
type tagged struct {
	Tag     string    `json:"tag"`
	Build   string    `json:"buildID"`
	Created time.Time `json:"createdAt"`
}

func (s *Server) listTags(w http.ResponseWriter, r *http.Request, id string) error {
	list := s.built(r, id)
	if len(list) == 0 {
		return corral.Errorf(corral.ErrNotFound, "", "there is no built template %.80q", id)
	}
	rows := []tagged{}
	for _, b := range list {
		for _, tag := range b.Tags {
			rows = append(rows, tagged{tag, b.ID, b.Created})
		}
	}
	return writeJSON(w, http.StatusOK, rows)
}

func (s *Server) addTags(w http.ResponseWriter, r *http.Request) error {
	var body struct {
		Target string   `json:"target"`
		Tags   []string `json:"tags"`
	}
	if err := readJSON(w, r, &body); err != nil {
		return err
	}
	tags, err := checkTags(body.Tags)
	if err != nil {
		return err
	}
	snap, ok := s.meant(r, body.Target)
	if !ok || !snap.Built {
		return corral.Errorf(corral.ErrNotFound, "", "there is no built template %.80q", body.Target)
	}
	if err := s.cfg.Store.snaps.tag(snap.ID, snap.Name, tags); err != nil {
		return err
	}
	return writeJSON(w, http.StatusCreated, map[string]any{"buildID": snap.ID, "tags": tags})
}

func (s *Server) removeTags(w http.ResponseWriter, r *http.Request) error {
	var body struct {
		Name string   `json:"name"`
		Tags []string `json:"tags"`
	}
	if err := readJSON(w, r, &body); err != nil {
		return err
	}
	list := s.built(r, cmp.Or(body.Name, ":"))
	for _, tag := range body.Tags {
		if !slices.ContainsFunc(list, func(x Snapshot) bool { return slices.Contains(x.Tags, tag) }) {
			return corral.Errorf(corral.ErrNotFound, "", "the template %.80q has no tag %.80q", body.Name, tag)
		}
	}
	if len(list) > 0 {
		if err := s.cfg.Store.snaps.untag(list[0].Agent, body.Name, body.Tags); err != nil {
			return err
		}
	}
	return noContent(w, nil)
}
