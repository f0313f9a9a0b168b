package e2b

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"math"
	"net/http"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/api"
	"github.com/corral-exec/corral/config"
	"github.com/corral-exec/corral/gateway/access"
)

// Control is the control plane.
func (s *Server) Control() []Route {
	routes := []Route{
		{Pattern: "GET /v2/sandboxes", Right: access.Read, Handle: s.list},
		{Pattern: "GET /sandboxes", Right: access.Read, Handle: s.list},
		{Pattern: "GET /sandboxes/{id}", Right: access.Read, Handle: s.onBox(s.get)},
		{Pattern: "GET /sandboxes/{id}/metrics", Right: access.Read, Handle: s.onBox(s.metrics)},
		{Pattern: "GET /sandboxes/{id}/logs", Right: access.Read, Handle: s.onBox(s.logsFrom)},
		{Pattern: "GET /v2/sandboxes/{id}/logs", Right: access.Read, Handle: s.onBox(s.logsByCursor)},
		{Pattern: "DELETE /sandboxes/{id}", Right: access.Run, Handle: s.onBox(s.kill)},
		{Pattern: "POST /sandboxes/{id}/timeout", Right: access.Run, Handle: s.onBox(s.setTimeout)},
		{Pattern: "POST /sandboxes/{id}/refreshes", Right: access.Run, Handle: s.onBox(s.refresh)},
		{Pattern: "POST /sandboxes/{id}/pause", Right: access.Run, Handle: s.onBox(s.pause)},
		{Pattern: "POST /sandboxes/{id}/snapshots", Right: access.Run, Handle: s.onBox(s.snapshot)},
		{Pattern: "POST /sandboxes/{id}/fork", Right: access.Run, Handle: s.onBox(s.fork)},
		{Pattern: "GET /snapshots", Right: access.Read, Handle: s.listSnapshots},
		{Pattern: "GET /templates", Right: access.Read, Handle: s.listTemplates},
		{Pattern: "GET /v2/templates", Right: access.Read, Handle: s.listTemplates},
		{Pattern: "DELETE /templates/{id}", Right: access.Run, Handle: s.removeTemplate},
		{Pattern: "GET /templates/{id}/{what}", Right: access.Read, Handle: s.ofTemplate},
		{Pattern: "POST /templates/tags", Right: access.Run, Handle: s.addTags},
		{Pattern: "DELETE /templates/tags", Right: access.Run, Handle: s.removeTags},
		{Pattern: "POST /v3/templates", Right: access.Run, Handle: s.requestBuild},
		{Pattern: "GET /templates/{id}/files/{hash}", Right: access.Run, Handle: s.linkUpload},
		{Pattern: "PUT /templates/{id}/files/{hash}", Right: access.Run, Handle: s.uploadFiles, Grant: s.uploader},
		{Pattern: "POST /v2/templates/{id}/builds/{build}", Right: access.Run, Handle: s.startBuild},
		{Pattern: "GET /templates/{id}/builds/{build}/status", Right: access.Read, Handle: s.buildStatus},
		{Pattern: "GET /teams", Right: access.Read, Handle: s.listTeams},
	}
	routes = append(routes, s.volumeRoutes()...)
	for _, version := range []string{"", "/v2"} {
		routes = append(routes,
			Route{Pattern: "POST " + version + "/sandboxes", Right: access.Run, Handle: s.create},
			Route{Pattern: "POST " + version + "/sandboxes/{id}/connect", Right: access.Run, Handle: s.onBox(s.connect)})
	}
	for _, pattern := range []string{
		"PUT /sandboxes/{id}/network", "/secrets", "/secrets/{rest...}", "/v2/templates/{rest...}", "/templates/{rest...}",
	} {
		routes = append(routes, Route{Pattern: pattern, Right: access.Run, Handle: missing})
	}
	return append(routes, Route{Pattern: "/", Right: access.Read, Handle: func(_ http.ResponseWriter, r *http.Request) error {
		return corral.Errorf(corral.ErrNotFound, "see docs/how-to/e2b.md for what there is", "there is no %s", r.URL.Path)
	}})
}

// missing answers what E2B has and Corral has not yet.
func missing(_ http.ResponseWriter, r *http.Request) error {
	return corral.Errorf(errors.ErrUnsupported, "see docs/how-to/e2b.md for what there is", "this gateway does not have %s %s", r.Method, r.URL.Path)
}

// newSandbox is the body of a request for a sandbox.
type newSandbox struct {
	Template   string            `json:"templateID"`
	Timeout    *int64            `json:"timeout"` // seconds
	Metadata   map[string]string `json:"metadata"`
	Env        map[string]string `json:"envVars"`
	Internet   *bool             `json:"allow_internet_access"`
	Network    *network          `json:"network"`
	IAM        json.RawMessage   `json:"iam"`
	Volumes    []Mount           `json:"volumeMounts"`
	AutoPause  bool              `json:"autoPause"`
	Memory     *bool             `json:"autoPauseMemory"`
	AutoResume struct {
		Enabled bool `json:"enabled"`
	} `json:"autoResume"`
}

// network is what a client says of a sandbox's network.
type network struct {
	AllowOut []string        `json:"allowOut,omitempty"`
	DenyOut  []string        `json:"denyOut,omitempty"`
	Proxy    json.RawMessage `json:"egressProxy,omitempty"`
	Rules    json.RawMessage `json:"rules,omitempty"`
	Public   *bool           `json:"allowPublicTraffic,omitempty"`
	Host     string          `json:"maskRequestHost,omitempty"`
}

// Bounds of what is kept with a sandbox.
const (
	maxBody       = 1 << 20
	maxTimeout    = 24 * time.Hour
	defaultTime   = 300 // seconds
	maxPairs      = 1000
	maxPairsBytes = 256 << 10
)

func (n newSandbox) check() error {
	refuse := func(what string) error {
		return corral.Errorf(corral.ErrInvalid, "leave it out: what a sandbox reaches is as configured (sandbox.network)", "this gateway does not have %s", what)
	}
	switch {
	case len(n.IAM) > 0 && string(n.IAM) != "null":
		return refuse("workload identities (iam)")
	case n.Network != nil && len(n.Network.AllowOut) > 0:
		return refuse("rules of what a sandbox may reach (network.allowOut)")
	case n.Network != nil && (len(n.Network.Proxy) > 0 || len(n.Network.Rules) > 0):
		return refuse("rules for requests of a sandbox (network.rules, network.egressProxy)")
	}
	for what, pairs := range map[string]map[string]string{"metadata": n.Metadata, "variables": n.Env} {
		size := 0
		for k, v := range pairs {
			size += len(k) + len(v)
		}
		if len(pairs) > maxPairs || size > maxPairsBytes {
			return corral.Errorf(corral.ErrInvalid, "", "the sandbox has more than %d %s, or more than %d bytes of them", maxPairs, what, maxPairsBytes)
		}
	}
	return checkMounts(n.Volumes)
}

// closed reports whether the network is one on which nothing may be reached.
func (n *network) closed() bool {
	return n != nil && len(n.DenyOut) > 0
}

func readJSON(w http.ResponseWriter, r *http.Request, v any) error {
	data, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		return corral.Errorf(corral.ErrInvalid, "", "the body could not be read: %w", err)
	}
	if len(data) == 0 {
		return nil
	}
	if err := json.Unmarshal(data, v); err != nil {
		return corral.Errorf(corral.ErrInvalid, "", "the body is malformed: %w", err)
	}
	return nil
}

// until is when a sandbox ends that may live for some seconds from now on.
func until(seconds *int64) (time.Time, error) {
	n := int64(defaultTime)
	if seconds != nil {
		n = *seconds
	}
	if n < 0 || n > int64(maxTimeout/time.Second) {
		return time.Time{}, corral.Errorf(corral.ErrInvalid, "", "Timeout cannot be negative or greater than %d hours", int(maxTimeout.Hours()))
	}
	return time.Now().Add(time.Duration(n) * time.Second).UTC(), nil
}

func (s *Server) create(w http.ResponseWriter, r *http.Request) error {
	var n newSandbox
	if err := readJSON(w, r, &n); err != nil {
		return err
	}
	n.Template = cmp.Or(n.Template, DefaultTemplate)
	if err := n.check(); err != nil {
		return err
	}
	end, err := until(n.Timeout)
	if err != nil {
		return err
	}
	g := access.From(r.Context())
	agent, err := s.agentFor(g)
	if err != nil {
		return err
	}
	from, err := s.source(agent, n.Template)
	if err != nil {
		return err
	}
	defer from.archive.Close()
	b := Box{
		ID: newID(), Agent: agent, Key: g.Ref(), Template: n.Template, Image: from.image, Preset: from.preset, Metadata: n.Metadata, Env: n.Env, Volumes: n.Volumes,
		Started: time.Now().UTC(), End: end, PauseAtEnd: n.AutoPause, StopAtEnd: n.Memory != nil && !*n.Memory, ResumeOnCall: n.AutoResume.Enabled, Internet: n.Internet, Token: newToken(),
	}
	if n.Network != nil {
		b.Host = n.Network.Host
		if n.Network.Public != nil && !*n.Network.Public {
			b.Traffic = newToken()
		}
	}
	b, err = s.make(r.Context(), b, n.Network.closed() || n.Internet != nil && !*n.Internet, func(ctx context.Context, b Box) error {
		if err := s.unpack(ctx, b, from); err != nil {
			return err
		}
		return s.launch(ctx, b)
	})
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusCreated, s.made(b))
}

// make makes a sandbox, and has fill put something into it. It is kept first: what is made
// afterwards is found by it. Who kills or pauses it meanwhile waits.
func (s *Server) make(of context.Context, b Box, closed bool, fill func(context.Context, Box) error) (Box, error) {
	release, err := s.turns.Take(of, b.ID)
	if err != nil {
		return b, err
	}
	defer release()
	lasts := b.End.Sub(b.Started)
	b.End = b.End.Add(callLimit) // no sooner than it has to be there
	if err := s.cfg.Store.add(b, cmp.Or(s.cfg.Settings().Sandboxes.Value, config.DefaultE2BSandboxes)); err != nil {
		return b, err
	}
	ctx, cancel := cleanly(s.within(of, b))
	defer cancel()
	err = s.cfg.Sandboxes.Warm(ctx, b.Agent)
	var there api.Sandbox
	if err == nil {
		there, err = s.cfg.Sandboxes.Get(ctx, b.ID)
	}
	if err == nil && closed && there.Network != "" && there.Network != "none" {
		err = corral.Errorf(corral.ErrInvalid, "set sandbox.network to none for agent "+b.Agent, "a sandbox that reaches nothing was asked for, and those of agent %s are on the network %s", b.Agent, there.Network)
	}
	if b.Root = there.Root; err == nil && b.Root {
		err = s.beginRoot(ctx, b)
	}
	if err == nil {
		err = fill(ctx, b)
	}
	if err == nil && of.Err() != nil { // the client is gone, and no other knows its ID
		err = of.Err()
	}
	if err != nil {
		ctx, cancel := cleanly(of) // the time for making it may be over
		defer cancel()
		return b, errors.Join(err, s.dismantle(ctx, b.ID, always))
	}
	b, err = s.cfg.Store.change(b.ID, func(b *Box) error {
		if there.Limits != nil {
			b.CPUs, b.Memory = there.Limits.CPUs, there.Limits.Memory
		}
		b.Root = there.Root
		now := time.Now().UTC() // its time begins when it is there
		b.Started, b.End = now, now.Add(lasts)
		return nil
	})
	if err == nil {
		err = s.keep(ctx, b, nothing)
	}
	s.again()
	return b, err
}

// made is a sandbox as the one who made it, or connected to it, is told.
type made struct {
	ID       string  `json:"sandboxID"`
	Template string  `json:"templateID"`
	Client   string  `json:"clientID"`
	Alias    string  `json:"alias"`
	Envd     string  `json:"envdVersion"`
	Token    string  `json:"envdAccessToken"`
	Traffic  *string `json:"trafficAccessToken"`
	Domain   *string `json:"domain"`
}

func (s *Server) made(b Box) made {
	m := made{ID: b.ID, Template: b.Template, Client: client, Alias: b.Template, Envd: EnvdVersion, Token: b.Token, Domain: s.domain()}
	if b.Traffic != "" {
		m.Traffic = &b.Traffic
	}
	return m
}

// client stands for the machine that a sandbox of E2B's is on.
const client = "corral"

func (s *Server) domain() *string {
	if s.cfg.Domain.IsZero() {
		return nil
	}
	d := s.cfg.Domain.String()
	return &d
}

// listed is a sandbox in a list; detail says more.
type listed struct {
	ID       string            `json:"sandboxID"`
	Template string            `json:"templateID"`
	Client   string            `json:"clientID"`
	Alias    string            `json:"alias"`
	Started  time.Time         `json:"startedAt"`
	End      time.Time         `json:"endAt"`
	CPUs     int               `json:"cpuCount"`
	Memory   int64             `json:"memoryMB"`
	Disk     int64             `json:"diskSizeMB"`
	Metadata map[string]string `json:"metadata"`
	State    string            `json:"state"`
	Envd     string            `json:"envdVersion"`
	Volumes  []Mount           `json:"volumeMounts"`
}

type detail struct {
	listed
	Token     string    `json:"envdAccessToken,omitempty"`
	Domain    *string   `json:"domain"`
	Internet  *bool     `json:"allowInternetAccess"`
	Network   network   `json:"network"`
	Lifecycle lifecycle `json:"lifecycle"`
}

type lifecycle struct {
	OnTimeout  string `json:"onTimeout"`
	AutoResume bool   `json:"autoResume"`
}

func list(b Box) listed {
	l := listed{
		ID: b.ID, Template: b.Template, Client: client, Alias: b.Template, Started: b.Started, End: b.End, Metadata: b.Metadata, Envd: EnvdVersion, Volumes: []Mount{},
		CPUs: int(math.Ceil(b.CPUs)), Memory: b.Memory >> 20, State: "running",
	}
	if l.Metadata == nil {
		l.Metadata = map[string]string{}
	}
	for _, v := range b.Volumes {
		l.Volumes = append(l.Volumes, Mount{Name: v.Name, Path: v.Path})
	}
	if b.Paused {
		l.State = "paused"
	}
	return l
}

func (s *Server) get(w http.ResponseWriter, r *http.Request, b Box) error {
	public := b.Traffic == ""
	d := detail{
		listed: list(b), Domain: s.domain(), Internet: b.Internet, Network: network{Public: &public, Host: b.Host},
		Lifecycle: lifecycle{OnTimeout: "kill", AutoResume: b.ResumeOnCall},
	}
	if access.From(r.Context()).Role.Has(access.Run) {
		d.Token = b.Token
	}
	if b.PauseAtEnd {
		d.Lifecycle.OnTimeout = "pause"
	}
	return writeJSON(w, http.StatusOK, d)
}

func (s *Server) kill(w http.ResponseWriter, r *http.Request, b Box) error {
	ctx, cancel := cleanly(r.Context())
	defer cancel()
	return noContent(w, s.destroy(ctx, b.ID, always))
}

// timeoutOf reads the body {"timeout": seconds}.
func timeoutOf(w http.ResponseWriter, r *http.Request) (time.Time, error) {
	var body struct {
		Timeout *int64 `json:"timeout"`
	}
	if err := readJSON(w, r, &body); err != nil {
		return time.Time{}, err
	}
	return until(body.Timeout)
}

func (s *Server) setTimeout(w http.ResponseWriter, r *http.Request, b Box) error {
	return s.newEnd(w, r, b, func(_, asked time.Time) time.Time { return asked })
}

// refresh keeps a sandbox alive for at least some seconds.
func (s *Server) refresh(w http.ResponseWriter, r *http.Request, b Box) error {
	return s.newEnd(w, r, b, later)
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func (s *Server) newEnd(w http.ResponseWriter, r *http.Request, b Box, choose func(was, asked time.Time) time.Time) error {
	asked, err := timeoutOf(w, r)
	if err != nil {
		return err
	}
	if b, err = s.cfg.Store.change(b.ID, func(b *Box) error {
		if b.Paused {
			return corral.Errorf(corral.ErrConflict, "connect to it first", "sandbox %s is paused", b.ID)
		}
		if s.over(*b) { // it is about to be removed
			return notFound(b.ID)
		}
		b.End = choose(b.End, asked)
		return nil
	}); err != nil {
		return err
	}
	err = s.keep(r.Context(), b, nothing) // before the answer: what a client was told holds without a gateway
	s.again()
	return noContent(w, err)
}

// connect resumes a sandbox that is paused, and puts the end of one that runs off.
func (s *Server) connect(w http.ResponseWriter, r *http.Request, b Box) error {
	asked, err := timeoutOf(w, r)
	if err != nil {
		return err
	}
	ctx, cancel := cleanly(r.Context())
	defer cancel()
	key := access.From(r.Context()).Ref()
	resumed, err := s.thaw(ctx, b.ID, asked, key)
	if err != nil {
		return err
	}
	status := http.StatusCreated
	if !resumed {
		status = http.StatusOK
		b, err = s.cfg.Store.change(b.ID, func(b *Box) error {
			if s.over(*b) {
				return notFound(b.ID)
			}
			b.Key, b.End = key, later(b.End, asked)
			return nil
		})
		if err == nil {
			err = s.keep(ctx, b, nothing)
		}
		s.again()
		if err != nil {
			return err
		}
	}
	return writeJSON(w, status, s.made(b))
}

func (s *Server) pause(w http.ResponseWriter, r *http.Request, b Box) error {
	var body struct {
		Memory *bool `json:"memory"`
	}
	if err := readJSON(w, r, &body); err != nil {
		return err
	}
	ctx, cancel := cleanly(r.Context())
	defer cancel()
	return noContent(w, s.freeze(ctx, b.ID, body.Memory != nil && !*body.Memory, always))
}
