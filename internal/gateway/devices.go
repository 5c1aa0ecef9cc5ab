package gateway

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"authgate/admin"
	"authgate/internal/config"
	"authgate/internal/device"
	"authgate/limits"
	"authgate/proxy"
)

// newDevices makes what tells trusted browsers from others; nil if no policy asks for one, or trusts one.
func (g *Gateway) newDevices(cfg *config.Config) (*proxy.Devices, error) {
	if !usesDevices(cfg) {
		return nil, nil
	}
	ring := [][]byte{g.keys.cookie}
	if len(cfg.Device.Keys) > 0 {
		ring = nil
		for _, key := range cfg.Device.Keys {
			ring = append(ring, []byte(key.Reveal()))
		}
	}
	keys, err := device.NewRing(ring)
	if err != nil {
		return nil, fmt.Errorf("preparing device.keys: %w", err)
	}
	registry, err := g.registry(cfg, g.stores.limits)
	if err != nil {
		return nil, err
	}
	return &proxy.Devices{
		Ring:     keys,
		Cookie:   device.Cookie{Name: cfg.Device.Cookie, Domain: cfg.Device.Domain, TTL: cfg.Device.TTL},
		Registry: registry,
	}, nil
}

// registry is the map of devices and users, as a configuration bounds it.
func (g *Gateway) registry(cfg *config.Config, records limits.Records) (*device.Registry, error) {
	return device.NewRegistry(device.Config{
		Records: records, Key: g.keys.devices, TTL: cfg.Device.TTL, MaxUsers: cfg.Device.MaxUsers,
	})
}

func usesDevices(cfg *config.Config) bool {
	for i := range cfg.Policies {
		p := &cfg.Policies[i]
		if !p.Enabled {
			continue
		}
		if p.TrustsDevice || p.OnSuccess.RevokeDevices {
			return true
		}
		for _, r := range allRules(cfg, p) {
			if r.Dimension == limits.Device {
				return true
			}
		}
	}
	return false
}

// publicURL is where the users of a realm reach the gateway: the realm's own name, if it has one, in place of the host of
// unlock.public_url.
func publicURL(cfg *config.Config, realm string) string {
	u, err := url.Parse(cfg.Unlock.PublicURL)
	if err != nil {
		return "" // not reached: it was checked
	}
	u.Path = ""
	for i := range cfg.Realms {
		r := &cfg.Realms[i]
		if r.Name != realm || len(r.Hosts) == 0 {
			continue
		}
		host := r.Hosts[0]
		for _, h := range r.Hosts {
			if h == u.Hostname() {
				host = h
			}
		}
		if port := u.Port(); port != "" {
			host += ":" + port
		}
		u.Host = host
	}
	return u.String()
}

// devices shows the trusted devices to /meta/devices.
type devices struct{ g *Gateway }

var _ admin.Devices = devices{}

// List shows the devices of one realm after the other. A cursor is the realm, a colon, and that of the realm's list.
func (d devices) List(ctx context.Context, realm, target, cursor string, limit int) (list []admin.Device, next string, err error) {
	cfg := d.g.cfg.Load()
	registry, err := d.g.registry(cfg, d.g.stores.common)
	if err != nil {
		return nil, "", err
	}
	names := []string{realm}
	if realm == "" {
		names = nil
		for _, t := range tenants(cfg) {
			names = append(names, t.realm)
		}
	}
	at, inner, ok := strings.Cut(cursor, ":")
	first := 0
	if cursor != "" {
		if first = slices.Index(names, at); first < 0 || !ok {
			return nil, "", limits.ErrCursor
		}
	}
	for i := first; i < len(names); i++ {
		entries, more, err := registry.List(ctx, names[i], target, inner, limit)
		if err != nil {
			return nil, "", err
		}
		for j := range entries {
			e := &entries[j]
			list = append(list, admin.Device{
				Realm: e.Realm, Target: e.Target, Device: e.ID, Since: e.Since, LastSuccess: e.Last, Expires: e.Expires, Failures: e.Failures,
			})
		}
		inner = ""
		switch {
		case more != "":
			return list, names[i] + ":" + more, nil
		case len(list) > 0 && i+1 < len(names) && target == "":
			return list, names[i+1] + ":", nil
		}
	}
	return list, "", nil
}

// Revoke ends the trust of a device.
func (d devices) Revoke(ctx context.Context, realm, device string) ([]string, error) {
	registry, err := d.g.registry(d.g.cfg.Load(), d.g.stores.common)
	if err != nil {
		return nil, err
	}
	targets, err := registry.Revoke(ctx, realm, device)
	return targets, errors.Join(err, d.g.stores.local.Flush())
}

// RevokeUser ends the trust of all devices of a user.
func (d devices) RevokeUser(ctx context.Context, realm, target string) (int, error) {
	registry, err := d.g.registry(d.g.cfg.Load(), d.g.stores.common)
	if err != nil {
		return 0, err
	}
	n, err := registry.RevokeUser(ctx, realm, target)
	return n, errors.Join(err, d.g.stores.local.Flush())
}
