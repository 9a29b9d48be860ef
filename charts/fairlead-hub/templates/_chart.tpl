{{/* Flags of the programs of this chart. */}}
{{- define "fairlead.role" -}}
hub
{{- end }}

{{/* A Go duration of hours, minutes and seconds, such as 2m0s, as a number of seconds. */}}
{{- define "fairlead.forceDeleteSeconds" -}}
{{- $text := .Values.forceDeleteWaitTime -}}
{{- $seconds := 0 -}}
{{- range $unit, $factor := dict "h" 3600 "m" 60 "s" 1 -}}
{{- $part := regexFind (printf "[0-9]+%s" $unit) $text -}}
{{- if $part -}}
{{- $seconds = add $seconds (mul (trimSuffix $unit $part | int) $factor) -}}
{{- end -}}
{{- end -}}
{{- $seconds -}}
{{- end }}

{{/* The programs of this chart with metrics. */}}
{{- define "fairlead.components" -}}
{{- if and .Values.trafficManager.enabled .Values.trafficManager.dns.enabled -}}
[hub, dns]
{{- else -}}
[hub]
{{- end -}}
{{- end }}

{{/* True if the hub updates another DNS server. Argument: trafficManager. */}}
{{- define "fairlead.updates" -}}
{{- and .enabled (eq .provider "rfc2136") -}}
{{- end }}

{{/* Flags of "fairlead hub". Argument: trafficManager. */}}
{{- define "fairlead.trafficArgs" -}}
{{- if not .enabled -}}
- --traffic-provider=none
{{- else -}}
- --traffic-provider={{ .provider }}
- --traffic-zone={{ .zone }}
- --traffic-ttl={{ .ttl }}
{{- with .owner }}
- --traffic-owner={{ . }}
{{- end }}
{{- with .privateRanges }}
- --traffic-private-ranges={{ . | join "," }}
{{- end }}
{{- if eq (include "fairlead.updates" .) "true" }}
- --rfc2136-server={{ required "trafficManager.rfc2136.server must be set with provider rfc2136" .rfc2136.server }}
{{- $_ := required "trafficManager.rfc2136.keySecret must be set with provider rfc2136" .rfc2136.keySecret }}
- --rfc2136-key-file=/etc/fairlead/rfc2136/key
{{- end }}
{{- end }}
{{- end }}

{{/* Text unless Pods are to be kept out of the hub: guardRails.workloads. */}}
{{- define "fairlead.runsWorkloads" -}}
{{- if eq .Values.guardRails.workloads "allow" -}}
allowed
{{- else if eq .Values.guardRails.workloads "auto" -}}
{{- if lookup "v1" "Secret" (include "fairlead.namespace" .) "fairlead-hub" -}}
member
{{- else -}}
{{- range (lookup "v1" "Pod" "" "").items -}}
{{- if not (or (hasPrefix "fleet-" .metadata.namespace) (hasPrefix "kube-" .metadata.namespace)) -}}
{{ .metadata.name }}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
