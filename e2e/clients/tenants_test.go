//go:build e2e

package clients_test

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/corral-exec/corral/api"
	"github.com/corral-exec/corral/client"
	"github.com/corral-exec/corral/images"
	"github.com/corral-exec/corral/internal/test/built"
	"github.com/corral-exec/corral/internal/test/enginetest"
	"github.com/corral-exec/corral/internal/test/testdir"
)

// Quotas of each key of the tenant red, whose keys ask for three times as much in half of
// the time. A burst is as much as a second's, so a turn of rest pays for the next.
const (
	redRate     = 20 // requests a second
	redSessions = 4  // of both keys
	redAsks     = 3 * redRate
)

// turn is how long red is idle, and then is not.
const turn = time.Second

// slower is how much a command of blue may take longer while red does what it may. Beside
// other tests, and in a few seconds, there is no telling so exactly.
const slower, slowerShort = 1.2, 3

// tenantKey is a key with what was asked by it.
type tenantKey struct {
	name, secret, tenant string
	url                  string
	http                 *http.Client
	count                [4]atomic.Int64 // by answer: served, refused, limited by rate, limited by sessions
}

const (
	served = iota
	refused
	limitedByRate
	limitedBySessions
)

// ask sends a request on behalf of an agent.
func (k *tenantKey) ask(ctx context.Context, method, agent, path, body string) (int, string, error) {
	r, err := http.NewRequestWithContext(ctx, method, k.url+path, strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	r.Header.Set("Authorization", "Bearer "+k.secret)
	r.Header.Set(api.HeaderAgent, agent)
	resp, err := k.http.Do(r)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, "", err
	}
	as := served
	switch {
	case resp.StatusCode == http.StatusTooManyRequests && bytes.Contains(text, []byte("makes more requests")):
		as = limitedByRate
	case resp.StatusCode == http.StatusTooManyRequests:
		as = limitedBySessions
	case resp.StatusCode >= 400:
		as = refused
	}
	k.count[as].Add(1)
	return resp.StatusCode, string(text), nil
}

// Two keys of each of two tenants, for CORRAL_SOAK (make soak: 10 min; else some seconds).
// Red asks for more than it may, in turns with nothing at all; blue runs one command after
// another and takes the time. Neither sees or hears the other, the quotas hold to the unit,
// and blue is not slower while red works.
func TestTenants(t *testing.T) {
	long := os.Getenv("CORRAL_SOAK")
	length, err := time.ParseDuration(cmp.Or(long, "12s"))
	if err != nil {
		t.Fatalf("CORRAL_SOAK: %v", err)
	}
	enginetest.New(t)
	config := filepath.Join(testdir.New(t), "corral.json5")
	writeFile(t, config, `{ agents: { defaults: { sandbox: { cpus: 0.25 } } } }`)
	g := startGateway(t, built.Program(t, "cmd/corral"), "--config", config, "--sandbox", "all", "--image", images.Busybox, "--workspace-access", "none", "--keep", "20")
	owner := g.client(client.Options{})
	t.Cleanup(func() {
		for _, name := range []string{"red-1", "red-2", "blue-1", "blue-2"} {
			if err := owner.RemoveSandbox(context.Background(), name); err != nil {
				t.Error(err)
			}
		}
	})
	transport := &http.Transport{MaxIdleConnsPerHost: 64, IdleConnTimeout: 90 * time.Second} // as http.DefaultTransport has it
	t.Cleanup(transport.CloseIdleConnections)
	keys := map[string]*tenantKey{}
	for _, name := range []string{"red-1", "red-2", "blue-1", "blue-2"} {
		tenant, _, _ := strings.Cut(name, "-")
		n := client.NewKey{Name: name, Role: "operator", Agents: []string{tenant + "-*"}}
		if tenant == "red" {
			n.Rate, n.MaxSessions = redRate, redSessions
		}
		made, err := owner.NewKey(t.Context(), n)
		if err != nil {
			t.Fatal(err)
		}
		keys[name] = &tenantKey{name: name, secret: made.Secret, tenant: tenant, url: "http://" + g.address(), http: &http.Client{Transport: transport}}
	}

	ctx, stop := context.WithTimeout(t.Context(), length)
	defer stop()
	l := &tenantLoad{t: t, keys: keys, ids: map[string]string{}}
	for _, k := range keys { // its sandbox is there
		if err := l.command(k, "true"); err != nil {
			t.Fatal(err)
		}
	}
	for tenant := range other { // which stays
		if l.ids[tenant], err = l.start(keys[tenant+"-1"], "exec sleep 3600"); err != nil {
			t.Fatal(err)
		}
	}
	begin := time.Now()
	var wg sync.WaitGroup
	for _, k := range keys {
		wg.Go(func() { l.listen(ctx, k) })
	}
	for name, k := range keys {
		if k.tenant == "red" {
			wg.Go(func() { l.greedy(ctx, k) })
		} else {
			wg.Go(func() { l.measure(ctx, keys[name]) })
		}
	}
	wg.Go(func() { l.turns(ctx) })
	wg.Go(func() { l.watch(ctx, owner) })
	wg.Wait()

	took := time.Since(begin)
	for _, k := range keys {
		if k.tenant == "red" {
			k.judgeRate(t, took)
		}
		k.judgeMetrics(t, g.token())
	}
	if most := l.most.Load(); most != redSessions {
		t.Errorf("red had %d sessions at a time, want the %d that it may have", most, redSessions)
	}
	ratio, n := l.slowed()
	t.Logf("%v: %d commands of blue, which took %.2f × as long while red worked; red %v of %d sessions", length, n, ratio, l.most.Load(), redSessions)
	if limit := map[bool]float64{true: slower, false: slowerShort}[long != ""]; ratio > limit || math.IsNaN(ratio) {
		t.Errorf("commands of blue took %.2f × as long while red worked, more than %v", ratio, limit)
	}
}

// tenantLoad is what the tenants do, and what was seen.
type tenantLoad struct {
	t    *testing.T
	keys map[string]*tenantKey
	busy atomic.Bool  // red works
	nth  atomic.Int64 // of the turns
	most atomic.Int64 // sessions of red at a time

	ids map[string]string // a session of each tenant

	mu    sync.Mutex
	times []taken
}

// taken is how long a command of blue took, and in which turn.
type taken struct {
	turn int64
	busy bool
	time time.Duration
}

// turns has red work, and not, until ctx ends.
func (l *tenantLoad) turns(ctx context.Context) {
	tick := time.NewTicker(turn)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			l.nth.Add(1)
			l.busy.Store(!l.busy.Load())
		}
	}
}

// other is the other tenant.
var other = map[string]string{"red": "blue", "blue": "red"}

// agentOf is how an answer names an agent of a tenant. An ID may have any word in it.
func agentOf(tenant string) string { return `"agent":"` + tenant + "-" }

// start starts a command of a key's own agent.
func (l *tenantLoad) start(k *tenantKey, text string) (id string, err error) {
	status, answer, err := k.ask(l.t.Context(), "POST", k.name, "/v1/sessions", fmt.Sprintf(`{"command":%q}`, text))
	var made struct {
		ID string `json:"sessionId"`
	}
	switch {
	case err != nil:
		return "", err
	case status == http.StatusTooManyRequests:
		return "", nil
	case status != http.StatusCreated:
		return "", fmt.Errorf("%d %s", status, answer)
	}
	err = json.Unmarshal([]byte(answer), &made)
	return made.ID, err
}

// command runs a command to its end, and removes it.
func (l *tenantLoad) command(k *tenantKey, text string) error {
	id, err := l.start(k, text)
	for _, then := range []struct{ method, path string }{{"GET", "/wait"}, {"DELETE", ""}} {
		var status int
		var answer string
		if err == nil {
			if status, answer, err = k.ask(l.t.Context(), then.method, k.name, "/v1/sessions/"+id+then.path, ""); err == nil && status >= 300 {
				err = fmt.Errorf("%s %s: %d %s", then.method, then.path, status, answer)
			}
		}
	}
	return err
}

// measure runs commands of blue, and looks now and then for what is red's.
func (l *tenantLoad) measure(ctx context.Context, k *tenantKey) {
	for i := 0; ctx.Err() == nil; i++ {
		nth, busy, begin := l.nth.Load(), l.busy.Load(), time.Now()
		if err := l.command(k, "echo blue"); err != nil {
			l.t.Errorf("%s: %v", k.name, err)
			return
		}
		took := time.Since(begin)
		l.mu.Lock()
		if nth == l.nth.Load() {
			l.times = append(l.times, taken{nth, busy, took})
		}
		l.mu.Unlock()
		if i%50 == 0 {
			l.look(k)
		}
	}
}

// greedy asks for more than a key of red may: for sessions that compute a little, and for
// what is blue's.
func (l *tenantLoad) greedy(ctx context.Context, k *tenantKey) {
	tick := time.NewTicker(time.Second / redAsks)
	defer tick.Stop()
	var all sync.WaitGroup
	defer all.Wait()
	for i := 0; ; i++ {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if !l.busy.Load() {
			continue
		}
		all.Go(func() {
			if i%40 == 0 {
				l.look(k)
			} else if _, err := l.start(k, "echo red; i=0; while [ $i -lt 5000 ]; do i=$((i+1)); done; sleep 0.2"); err != nil {
				l.t.Errorf("%s: %v", k.name, err)
			}
		})
	}
}

// look asks for what is the other tenant's.
func (l *tenantLoad) look(k *tenantKey) {
	other := other[k.tenant]
	sees := func(path string, want ...int) {
		status, answer, err := k.ask(l.t.Context(), "GET", k.name, path, "")
		if err != nil || !slices.Contains(append(want, http.StatusTooManyRequests), status) || status == http.StatusOK && strings.Contains(answer, agentOf(other)) {
			l.t.Errorf("%s: %s: %d %.300s, %v", k.name, path, status, answer, err)
		}
	}
	sees("/v1/sessions?agent=*", http.StatusOK)
	sees("/v1/sandboxes", http.StatusOK)
	sees("/v1/sandboxes/"+other+"-1/ports/80/", http.StatusNotFound)
	sees("/v1/sessions/"+l.ids[other], http.StatusNotFound)
	sees("/v1/sessions/"+l.ids[other]+"/log", http.StatusNotFound)
}

// listen hears all events that a key may hear.
func (l *tenantLoad) listen(ctx context.Context, k *tenantKey) {
	r, err := http.NewRequestWithContext(ctx, "GET", k.url+"/v1/events?agent=*", nil)
	if err != nil {
		l.t.Error(err)
		return
	}
	r.Header.Set("Authorization", "Bearer "+k.secret)
	resp, err := k.http.Do(r)
	if err != nil {
		l.t.Error(err)
		return
	}
	defer resp.Body.Close()
	k.count[served].Add(1)
	heard := 0
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); heard++ {
		if strings.Contains(lines.Text(), agentOf(other[k.tenant])) {
			l.t.Errorf("%s hears %s", k.name, lines.Text())
		}
	}
	if heard == 0 {
		l.t.Errorf("%s hears nothing", k.name)
	}
}

// watch counts the sessions of red that run at a time. It does so in all turns, since it
// costs blue as well.
func (l *tenantLoad) watch(ctx context.Context, owner *client.Client) {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		list, err := owner.Sessions(ctx, true)
		if err != nil {
			if ctx.Err() == nil {
				l.t.Error(err)
			}
			return
		}
		var n int64
		for _, st := range list {
			if strings.HasPrefix(st.Agent, "red-") && !st.Ended() {
				n++
			}
		}
		l.most.Store(max(l.most.Load(), n))
	}
}

// slowed is how much longer commands of blue took while red worked: the median of all
// pairs of turns.
func (l *tenantLoad) slowed() (ratio float64, n int) {
	turns := map[int64][]time.Duration{}
	for _, at := range l.times {
		turns[at.turn] = append(turns[at.turn], at.time)
	}
	var ratios []float64
	for nth, idle := range turns {
		if busy := turns[nth+1]; nth%2 == 0 && len(idle) > 2 && len(busy) > 2 { // red begins with rest
			ratios = append(ratios, float64(median(busy))/float64(median(idle)))
		}
	}
	if len(ratios) == 0 {
		return math.NaN(), len(l.times)
	}
	return median(ratios), len(l.times)
}

func median[T cmp.Ordered](list []T) T {
	list = slices.Sorted(slices.Values(list))
	return list[len(list)/2]
}

// judgeRate demands that a key got what it may, and not one request more.
func (k *tenantKey) judgeRate(t *testing.T, took time.Duration) {
	t.Helper()
	got := k.count[served].Load() + k.count[refused].Load() + k.count[limitedBySessions].Load()
	most := float64(redRate) * (1 + took.Seconds()) // and a burst
	if float64(got) > most || float64(got) < 0.7*most-redRate || k.count[limitedByRate].Load() == 0 || k.count[limitedBySessions].Load() == 0 {
		t.Errorf("%s made %d requests in %v, and may make %.1f; %d were refused for its rate, %d for its sessions", k.name, got, took, most, k.count[limitedByRate].Load(), k.count[limitedBySessions].Load())
	}
	t.Logf("%s made %d of the %.1f requests that it may; %d were refused for its rate, %d for its sessions", k.name, got, most, k.count[limitedByRate].Load(), k.count[limitedBySessions].Load())
}

// judgeMetrics demands that the gateway counted what the key did, to the unit.
func (k *tenantKey) judgeMetrics(t *testing.T, token string) {
	t.Helper()
	want := fmt.Sprintf("%d served, %d limited", k.count[served].Load()+k.count[refused].Load(), k.count[limitedByRate].Load()+k.count[limitedBySessions].Load())
	got := ""
	for end := time.Now().Add(10 * time.Second); got != want && time.Now().Before(end); time.Sleep(20 * time.Millisecond) { // streams are counted when they end
		_, text, err := (&tenantKey{secret: token, url: k.url, http: k.http}).ask(t.Context(), "GET", "main", "/metrics", "")
		if err != nil {
			t.Fatal(err)
		}
		count := map[string]string{"served": "0", "limited": "0"}
		for _, match := range keyMetric.FindAllStringSubmatch(text, -1) {
			if match[2] == k.name {
				count[match[1]] = match[3]
			}
		}
		got = count["served"] + " served, " + count["limited"] + " limited"
	}
	if got != want {
		t.Errorf("%s: the gateway counted %s; there were %s", k.name, got, want)
	}
}

var keyMetric = regexp.MustCompile(`(?m)^corral_key_requests_total\{answer="([a-z]+)",key="([a-z0-9-]+)"\} (\d+)$`)
