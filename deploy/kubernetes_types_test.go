package deploy_test

// These are the parts of Kubernetes' types that the manifests use, and no others: what is spelled wrong, or stands in the wrong place, is a
// field that they do not have.

type object struct {
	APIVersion string `yaml:"apiVersion"`
	Kind       string
	Metadata   metadata
	Spec       spec

	// Kustomization
	Namespace          string
	Resources          []string
	ConfigMapGenerator []struct {
		Name  string
		Files []string
	} `yaml:"configMapGenerator"`
	Images []struct {
		Name    string
		NewName string `yaml:"newName"`
		NewTag  string `yaml:"newTag"`
	}
}

type metadata struct {
	Name        string
	Labels      map[string]string
	Annotations map[string]string
}

type selects struct {
	MatchLabels map[string]string `yaml:"matchLabels"`
}

// spec is that of any kind of object; selector is left for each to read.
type spec struct {
	Selector any

	// Deployment, StatefulSet
	Replicas    int
	ServiceName string `yaml:"serviceName"`
	Strategy    struct {
		RollingUpdate struct {
			MaxSurge       int `yaml:"maxSurge"`
			MaxUnavailable int `yaml:"maxUnavailable"`
		} `yaml:"rollingUpdate"`
	}
	Template struct {
		Metadata metadata
		Spec     pod
	}
	VolumeClaimTemplates []struct {
		Metadata metadata
		Spec     struct {
			AccessModes []string `yaml:"accessModes"`
			Resources   resources
		}
	} `yaml:"volumeClaimTemplates"`

	// Service
	Ports []struct {
		Name       string
		Port       int
		TargetPort string `yaml:"targetPort"`
	}

	// NetworkPolicy
	PodSelector *selects `yaml:"podSelector"`
	PolicyTypes []string `yaml:"policyTypes"`
	Ingress     []traffic
	Egress      []traffic

	// PodDisruptionBudget
	MinAvailable int `yaml:"minAvailable"`
}

type traffic struct {
	From, To []struct {
		PodSelector       *selects `yaml:"podSelector"`
		NamespaceSelector *selects `yaml:"namespaceSelector"`
	}
	Ports []struct {
		Port     string
		Protocol string
	}
}

type pod struct {
	Automount       *bool `yaml:"automountServiceAccountToken"`
	EnableLinks     *bool `yaml:"enableServiceLinks"`
	SecurityContext struct {
		RunAsNonRoot   bool                  `yaml:"runAsNonRoot"`
		RunAsUser      int                   `yaml:"runAsUser"`
		RunAsGroup     int                   `yaml:"runAsGroup"`
		FSGroup        int                   `yaml:"fsGroup"`
		SeccompProfile struct{ Type string } `yaml:"seccompProfile"`
	} `yaml:"securityContext"`
	Grace  int `yaml:"terminationGracePeriodSeconds"`
	Spread []struct {
		MaxSkew           int     `yaml:"maxSkew"`
		TopologyKey       string  `yaml:"topologyKey"`
		WhenUnsatisfiable string  `yaml:"whenUnsatisfiable"`
		LabelSelector     selects `yaml:"labelSelector"`
	} `yaml:"topologySpreadConstraints"`
	Containers []container
	Volumes    []struct {
		Name      string
		ConfigMap *struct{ Name string } `yaml:"configMap"`
		Secret    *struct {
			SecretName  string `yaml:"secretName"`
			DefaultMode int    `yaml:"defaultMode"`
			Items       []struct{ Key, Path string }
		}
	}
}

type container struct {
	Name, Image   string
	Command, Args []string
	Env           []struct{ Name, Value string }
	Ports         []struct {
		Name          string
		ContainerPort int `yaml:"containerPort"`
	}
	ReadinessProbe *probe `yaml:"readinessProbe"`
	LivenessProbe  *probe `yaml:"livenessProbe"`
	Lifecycle      struct {
		PreStop struct {
			Sleep struct{ Seconds int }
		} `yaml:"preStop"`
	}
	Resources       resources
	SecurityContext struct {
		Escalation   *bool `yaml:"allowPrivilegeEscalation"`
		ReadOnly     bool  `yaml:"readOnlyRootFilesystem"`
		Capabilities struct{ Drop []string }
	} `yaml:"securityContext"`
	VolumeMounts []struct {
		Name      string
		MountPath string `yaml:"mountPath"`
		ReadOnly  bool   `yaml:"readOnly"`
	} `yaml:"volumeMounts"`
}

type probe struct {
	HTTPGet          *struct{ Path, Port string } `yaml:"httpGet"`
	TCPSocket        *struct{ Port string }       `yaml:"tcpSocket"`
	Exec             *struct{ Command []string }
	PeriodSeconds    int `yaml:"periodSeconds"`
	TimeoutSeconds   int `yaml:"timeoutSeconds"`
	FailureThreshold int `yaml:"failureThreshold"`
}

type resources struct{ Requests, Limits map[string]string }
