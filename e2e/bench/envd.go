//go:build linux

package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/mount"
	"github.com/docker/docker/client"
)

// boxEnvd is E2B's daemon, in a container of the sandboxes' image.
const boxEnvd = "E2B's envd"

// envdPort is where it listens.
const envdPort = "49983"

// An envd runs jobs as E2B's SDK has them run: by process.Process/Start in JSON, over
// Connect's protocol for streams.
type envd struct {
	api  *client.Client
	id   string // of the container
	url  string
	http *http.Client
}

// addEnvd adds the daemon of a program, which is started when it is used.
func (s *site) addEnvd(ctx context.Context, program string) {
	start := sync.OnceValues(func() (*envd, error) {
		e, err := startEnvd(ctx, s.api, s.image, program)
		if e != nil {
			s.closers = append(s.closers, e)
		}
		return e, err
	})
	s.add(place{name: boxEnvd, run: func(ctx context.Context, j job) (time.Duration, error) {
		e, err := start()
		if err != nil {
			return 0, err
		}
		return e.run(ctx, j)
	}})
}

func startEnvd(ctx context.Context, api *client.Client, image, program string) (*envd, error) {
	if _, err := os.Stat(program); err != nil {
		return nil, fmt.Errorf("cannot use E2B's daemon: %w", err)
	}
	made, err := api.ContainerCreate(ctx,
		&container.Config{Image: image, User: "0:0", Entrypoint: []string{"/envd", "-isnotfc", "-port", envdPort}, Labels: map[string]string{"corral": "bench"}},
		&container.HostConfig{LogConfig: container.LogConfig{Type: "none"}, Mounts: []mount.Mount{{Type: mount.TypeBind, Source: program, Target: "/envd", ReadOnly: true}}},
		nil, nil, "")
	if err != nil {
		return nil, err
	}
	e := &envd{api: api, id: made.ID, http: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: workers}}}
	if err := api.ContainerStart(ctx, made.ID, container.StartOptions{}); err != nil {
		return e, err
	}
	c, err := api.ContainerInspect(ctx, made.ID)
	if err != nil {
		return e, err
	}
	for _, n := range c.NetworkSettings.Networks {
		e.url = "http://" + net.JoinHostPort(n.IPAddress, envdPort)
	}
	for end := time.Now().Add(readyLimit); ; time.Sleep(20 * time.Millisecond) {
		if _, err = e.run(ctx, job{shell: "true"}); err == nil || time.Now().After(end) {
			return e, err
		}
	}
}

// Flags of Connect's envelopes.
const connectEnd = 2

func (e *envd) run(ctx context.Context, j job) (time.Duration, error) {
	argv := j.argv()
	body, err := json.Marshal(map[string]any{"process": map[string]any{"cmd": argv[0], "args": argv[1:]}})
	if err != nil {
		return 0, err
	}
	start := time.Now()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, e.url+"/process.Process/Start", bytes.NewReader(append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(body))), body...)))
	if err != nil {
		return 0, err
	}
	req.Header.Set("Content-Type", "application/connect+json")
	req.Header.Set("Connect-Protocol-Version", "1")
	req.Header.Set("Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte("agent:")))
	res, err := e.http.Do(req)
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	var status string
	for {
		var head [5]byte
		if _, err := io.ReadFull(res.Body, head[:]); err != nil {
			return 0, fmt.Errorf("E2B's daemon: HTTP %s: %w", res.Status, err)
		}
		message := make([]byte, min(binary.BigEndian.Uint32(head[1:]), 1<<20))
		if _, err := io.ReadFull(res.Body, message); err != nil {
			return 0, err
		}
		if head[0] == connectEnd {
			break
		}
		var m struct {
			Event struct {
				End struct {
					Status string `json:"status"`
				} `json:"end"`
			} `json:"event"`
		}
		if err := json.Unmarshal(message, &m); err != nil {
			return 0, err
		}
		if m.Event.End.Status != "" {
			status = m.Event.End.Status
		}
	}
	took := time.Since(start)
	if status != "exit status 0" {
		return 0, fmt.Errorf("%v: E2B's daemon says %q", j, status)
	}
	_, err = io.Copy(io.Discard, res.Body)
	return took, err
}

// Close removes the container.
func (e *envd) Close() error {
	e.http.CloseIdleConnections()
	return e.api.ContainerRemove(context.Background(), e.id, container.RemoveOptions{Force: true, RemoveVolumes: true})
}
