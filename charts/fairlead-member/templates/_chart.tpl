{{/* Flags of the programs of this chart. */}}
{{- define "fairlead.role" -}}
member
{{- end }}

{{/* The programs of this chart with metrics. */}}
{{- define "fairlead.components" -}}
{{- if .Values.dns.enabled -}}
[member, dns]
{{- else -}}
[member]
{{- end -}}
{{- end }}

{{/* hub.hubURL is a value of Fleetboard's chart. */}}
{{- define "fairlead.hubURL" -}}
{{- .Values.config.hubURL | default (dig "hubURL" "" (.Values.hub | default dict)) -}}
{{- end }}
