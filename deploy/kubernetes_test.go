package deploy_test

import (
	"bytes"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"gopkg.in/yaml.v3"

	"authgate/internal/config"
)

// manifests are the objects of a folder and of those that its kustomization names, without the kustomizations.
func manifests(t *testing.T, folder string) []object {
	t.Helper()
	k := decode[object](t, filepath.Join(folder, "kustomization.yaml"))[0]
	if k.Kind != "Kustomization" {
		t.Fatalf("%s: got the kind %q", folder, k.Kind)
	}
	var out []object
	listed := []string{"kustomization.yaml"}
	for _, r := range k.Resources {
		if filepath.Ext(r) == "" {
			out = append(out, manifests(t, filepath.Join(folder, r))...)
			continue
		}
		listed = append(listed, r)
		out = append(out, decode[object](t, filepath.Join(folder, r))...)
	}
	for _, g := range k.ConfigMapGenerator {
		listed = append(listed, g.Files...)
		out = append(out, object{APIVersion: "v1", Kind: "ConfigMap", Metadata: metadata{Name: g.Name}})
	}
	there, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range there {
		if !slices.Contains(listed, f.Name()) {
			t.Errorf("%s: the kustomization does not name %s", folder, f.Name())
		}
	}
	return out
}

// remarshal reads what was read as anything as what it is.
func remarshal(t *testing.T, from, into any) {
	t.Helper()
	b, err := yaml.Marshal(from)
	if err != nil {
		t.Fatal(err)
	}
	d := yaml.NewDecoder(bytes.NewReader(b))
	d.KnownFields(true)
	if err := d.Decode(into); err != nil {
		t.Fatal(err)
	}
}

// TestKubernetes holds the manifests of both variants against each other, and against the configurations in them.
func TestKubernetes(t *testing.T) {
	for _, c := range []struct {
		folder   string
		backend  string
		replicas int
	}{
		{"kubernetes/standalone", "http://login:9000", 2},
		{"kubernetes/sidecar", "http://127.0.0.1:9000", 2},
	} {
		t.Run(c.folder, func(t *testing.T) {
			objects := manifests(t, c.folder)
			cfg := gatewayConfig(t, filepath.Join(c.folder, "config.yaml"))
			if got := cfg.Upstream.URL.String(); got != c.backend {
				t.Errorf("the backend is %s, want %s", got, c.backend)
			}
			if got := cfg.Store.Valkey.Addresses; !slices.Equal(got, []string{"valkey:6379"}) || cfg.Store.Valkey.Username != "authgate" {
				t.Errorf("the store is %q of %q", got, cfg.Store.Valkey.Username)
			}
			gateways := 0
			for _, o := range objects {
				p := o.Spec.Template.Spec
				for i := range p.Containers {
					checkContainer(t, o, &p, &p.Containers[i])
				}
				if i := slices.IndexFunc(p.Containers, func(c container) bool { return c.Name == "authgate" }); i >= 0 {
					gateways++
					if o.Spec.Replicas != c.replicas {
						t.Errorf("%s has %d replicas", o.Metadata.Name, o.Spec.Replicas)
					}
					checkGateway(t, cfg, &p, &p.Containers[i])
				}
				checkReferences(t, o, objects)
			}
			if gateways != 1 {
				t.Errorf("there are %d deployments of the gateway", gateways)
			}
			for _, kind := range []string{"Namespace", "Deployment", "StatefulSet", "Service", "ConfigMap", "NetworkPolicy", "PodDisruptionBudget"} {
				if !slices.ContainsFunc(objects, func(o object) bool { return o.Kind == kind }) {
					t.Errorf("there is no %s", kind)
				}
			}
		})
	}
}

// checkContainer holds a container to what the namespace's level of pod security, restricted, asks for, and to more.
func checkContainer(t *testing.T, o object, p *pod, c *container) {
	t.Helper()
	where := o.Metadata.Name + "/" + c.Name
	if s := p.SecurityContext; !s.RunAsNonRoot || s.RunAsUser == 0 || s.RunAsGroup == 0 || s.SeccompProfile.Type != "RuntimeDefault" {
		t.Errorf("%s: got the security context %+v of the pod", where, s)
	}
	if s := c.SecurityContext; s.Escalation == nil || *s.Escalation || !s.ReadOnly || !slices.Equal(s.Capabilities.Drop, []string{"ALL"}) {
		t.Errorf("%s: got the security context %+v", where, s)
	}
	if p.Automount == nil || *p.Automount || p.EnableLinks == nil || *p.EnableLinks {
		t.Errorf("%s has a token of the cluster's API, or the addresses of services in its environment", where)
	}
	if c.Image != "authgate" && !pinned.MatchString(c.Image) { // the kustomization says where authgate is
		t.Errorf("%s: the image %q is not pinned", where, c.Image)
	}
	if c.ReadinessProbe == nil || c.Resources.Limits["memory"] == "" || c.Resources.Requests["memory"] == "" || c.Resources.Requests["cpu"] == "" {
		t.Errorf("%s has no probe, or says nothing of its memory and processor", where)
	}
	if p.Grace != 0 && c.Lifecycle.PreStop.Sleep.Seconds >= p.Grace {
		t.Errorf("%s is killed before it is told to stop", where)
	}
	for _, m := range c.VolumeMounts {
		if !m.ReadOnly && m.MountPath != "/data" {
			t.Errorf("%s may write to %s", where, m.MountPath)
		}
		claim := slices.ContainsFunc(o.Spec.VolumeClaimTemplates, func(v struct {
			Metadata metadata
			Spec     struct {
				AccessModes []string `yaml:"accessModes"`
				Resources   resources
			}
		},
		) bool {
			return v.Metadata.Name == m.Name
		})
		volume := false
		for _, v := range p.Volumes {
			volume = volume || v.Name == m.Name
		}
		if !claim && !volume {
			t.Errorf("%s: there is no volume %s", where, m.Name)
		}
	}
}

// checkGateway holds the gateway's container against its configuration.
func checkGateway(t *testing.T, cfg *config.Config, p *pod, c *container) {
	t.Helper()
	ports := map[string]string{}
	for _, port := range c.Ports {
		ports[port.Name] = strconv.Itoa(port.ContainerPort)
	}
	for name, address := range map[string]string{"http": cfg.Server.Listen[0], "admin": cfg.Admin.Listen} {
		host, port, err := net.SplitHostPort(address)
		if err != nil || host != "" || ports[name] != port {
			t.Errorf("the port %s is %s, but the configuration listens on %s", name, ports[name], address)
		}
	}
	for path, probe := range map[string]*probe{"/readyz": c.ReadinessProbe, "/healthz": c.LivenessProbe} {
		if probe == nil || probe.HTTPGet == nil || probe.HTTPGet.Path != path || probe.HTTPGet.Port != "admin" {
			t.Errorf("%s of the admin listener is not asked", path)
		}
	}
	var mounts []string
	for _, m := range c.VolumeMounts {
		mounts = append(mounts, m.MountPath)
	}
	if !slices.Equal(c.Args, []string{"run", "--config", "/etc/authgate/config.yaml"}) || !slices.Equal(mounts, []string{"/etc/authgate", "/run/secrets/authgate"}) {
		t.Errorf("it is started by %q with %q", c.Args, mounts)
	}
	if len(c.Env) != 1 || c.Env[0].Name != "GOMEMLIMIT" {
		t.Fatalf("got the environment %v", c.Env)
	}
	checkMemory(t, c.Env[0].Value, c.Resources.Limits["memory"])

	pause := time.Duration(c.Lifecycle.PreStop.Sleep.Seconds) * time.Second
	if grace := time.Duration(p.Grace) * time.Second; pause < 5*time.Second || grace <= pause+settling(cfg) {
		t.Errorf("a stop may take %s, but needs %s", grace, pause+settling(cfg))
	}
	for _, other := range p.Containers { // those that stand behind the gateway
		if wait := time.Duration(other.Lifecycle.PreStop.Sleep.Seconds) * time.Second; other.Name != c.Name && wait <= pause+serving(cfg) {
			t.Errorf("%s stops after %s, but the gateway may need it for %s", other.Name, wait, pause+serving(cfg))
		}
	}
}

// checkReferences looks for what an object names: pods by their labels, ports, volumes' sources.
func checkReferences(t *testing.T, o object, objects []object) {
	t.Helper()
	where := o.Kind + " " + o.Metadata.Name
	var labels map[string]string
	switch o.Kind {
	case "Service":
		remarshal(t, o.Spec.Selector, &labels)
	case "Deployment", "StatefulSet", "PodDisruptionBudget":
		var s selects
		remarshal(t, o.Spec.Selector, &s)
		labels = s.MatchLabels
	case "NetworkPolicy":
		labels = o.Spec.PodSelector.MatchLabels
	}
	if labels != nil && !anyPod(objects, labels, "") {
		t.Errorf("%s: no pod has the labels %v", where, labels)
	}
	if o.Spec.Replicas > 0 && !contains(labels, o.Spec.Template.Metadata.Labels) {
		t.Errorf("%s: its own pods have the labels %v, not %v", where, o.Spec.Template.Metadata.Labels, labels)
	}
	for _, p := range o.Spec.Ports {
		if !anyPod(objects, labels, p.TargetPort) {
			t.Errorf("%s: there is no port %s", where, p.TargetPort)
		}
	}
	for _, rule := range o.Spec.Ingress {
		checkTraffic(t, where, objects, rule, labels)
	}
	for _, rule := range o.Spec.Egress {
		checkTraffic(t, where, objects, rule, nil)
	}
	for _, v := range o.Spec.Template.Spec.Volumes {
		if v.ConfigMap != nil && !slices.ContainsFunc(objects, func(c object) bool { return c.Kind == "ConfigMap" && c.Metadata.Name == v.ConfigMap.Name }) {
			t.Errorf("%s: there is no config map %s", where, v.ConfigMap.Name)
		}
		if v.Secret != nil && (v.Secret.SecretName != "authgate" || v.Secret.DefaultMode != 0o440) {
			t.Errorf("%s: got the secret %+v", where, v.Secret)
		}
	}
}

// checkTraffic looks for the pods at the other end, and for the ports at the end that is listening.
func checkTraffic(t *testing.T, where string, objects []object, rule traffic, listening map[string]string) {
	t.Helper()
	for _, peer := range append(rule.From, rule.To...) {
		if peer.NamespaceSelector != nil { // of another's namespace nothing is known here
			continue
		}
		if !anyPod(objects, peer.PodSelector.MatchLabels, "") {
			t.Errorf("%s: no pod has the labels %v", where, peer.PodSelector.MatchLabels)
		}
		if listening == nil {
			listening = peer.PodSelector.MatchLabels
		}
	}
	for _, p := range rule.Ports {
		if p.Port != "53" && !anyPod(objects, listening, p.Port) {
			t.Errorf("%s: there is no port %s", where, p.Port)
		}
	}
}

// anyPod reports whether some pod has the labels, and a port of that name unless it is empty.
func anyPod(objects []object, labels map[string]string, port string) bool {
	return slices.ContainsFunc(objects, func(o object) bool {
		if !contains(labels, o.Spec.Template.Metadata.Labels) {
			return false
		}
		return port == "" || slices.ContainsFunc(o.Spec.Template.Spec.Containers, func(c container) bool {
			for _, p := range c.Ports {
				if p.Name == port {
					return true
				}
			}
			return false
		})
	})
}

// TestSecretsAreMade holds the files of secrets that configurations, pods and start.sh name against the command that makes them.
func TestSecretsAreMade(t *testing.T) {
	var want []string
	for _, path := range append(files(t, ".yaml", ".sh"), "README.md") {
		for _, m := range regexp.MustCompile(`/run/secrets/authgate/([a-z-]+)`).FindAllStringSubmatch(read(t, path), -1) {
			want = append(want, m[1])
		}
	}
	var got []string
	for _, m := range regexp.MustCompile(`--from-literal=([a-z-]+)=`).FindAllStringSubmatch(read(t, "README.md"), -1) {
		got = append(got, m[1])
	}
	for _, list := range []*[]string{&want, &got} {
		slices.Sort(*list)
		*list = slices.Compact(*list)
	}
	if !slices.Equal(got, want) || len(got) != 3 {
		t.Errorf("README.md makes the secrets %q, but %q are used", got, want)
	}
}

// TestKustomize has kubectl put the manifests together, and looks at the images that come of it.
func TestKustomize(t *testing.T) {
	for _, folder := range []string{"kubernetes/standalone", "kubernetes/sidecar"} {
		out := tool(t, "it is kubectl of any version from 1.21", "kubectl", "kustomize", folder)
		images := regexp.MustCompile(`(?m)^\s+(?:- )?image: (\S+)$`).FindAllStringSubmatch(out, -1)
		for _, m := range images {
			if !strings.Contains(m[1], ":") || !strings.Contains(m[1], "/") {
				t.Errorf("%s: got the image %s", folder, m[1])
			}
		}
		if len(images) != 3 {
			t.Errorf("%s: got the images %q", folder, images)
		}
	}
}
