package main

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	appsv1 "k8s.io/client-go/applyconfigurations/apps/v1"
	corev1 "k8s.io/client-go/applyconfigurations/core/v1"
	acmetav1 "k8s.io/client-go/applyconfigurations/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// apply has two managers set fields of one Deployment through apply configurations.
func apply(ctx context.Context, config *rest.Config) error {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	deployments := client.AppsV1().Deployments(namespace)
	owner := metav1.ApplyOptions{FieldManager: "owner"}
	made, err := deployments.Apply(ctx, deployment(2), owner)
	if err != nil {
		return err
	}
	again, err := deployments.Apply(ctx, deployment(2), owner)
	if err != nil {
		return err
	}
	say(map[string]any{"replicas": *made.Spec.Replicas, "unchanged": made.ResourceVersion == again.ResourceVersion})
	scaler := metav1.ApplyOptions{FieldManager: "scaler"}
	replicas := appsv1.Deployment("web", namespace).WithSpec(appsv1.DeploymentSpec().WithReplicas(5))
	_, err = deployments.Apply(ctx, replicas, scaler)
	causes := []string{}
	if status, ok := err.(apierrors.APIStatus); ok && apierrors.IsConflict(err) {
		for _, cause := range status.Status().Details.Causes {
			causes = append(causes, string(cause.Type)+" "+cause.Field)
		}
	}
	say(map[string]any{"conflict": causes})
	scaler.Force = true
	forced, err := deployments.Apply(ctx, replicas, scaler)
	if err != nil {
		return err
	}
	// What the owner holds of the object, as the typed client reads it back from managedFields.
	extracted, err := appsv1.ExtractDeployment(forced, "owner")
	if err != nil {
		return err
	}
	say(map[string]any{"replicas": *forced.Spec.Replicas, "ownerHoldsReplicas": extracted.Spec.Replicas != nil,
		"ownerHoldsImage": *extracted.Spec.Template.Spec.Containers[0].Image})
	left, err := deployments.Apply(ctx, extracted, owner)
	if err != nil {
		return err
	}
	say(map[string]any{"unchanged": left.ResourceVersion == forced.ResourceVersion})
	return nil
}

func deployment(replicas int32) *appsv1.DeploymentApplyConfiguration {
	labels := map[string]string{"app": "web"}
	container := corev1.Container().WithName("server").WithImage("nginx").
		WithPorts(corev1.ContainerPort().WithContainerPort(80))
	return appsv1.Deployment("web", namespace).WithLabels(labels).WithSpec(appsv1.DeploymentSpec().
		WithReplicas(replicas).
		WithSelector(acmetav1.LabelSelector().WithMatchLabels(labels)).
		WithTemplate(corev1.PodTemplateSpec().WithLabels(labels).WithSpec(corev1.PodSpec().WithContainers(container))))
}
